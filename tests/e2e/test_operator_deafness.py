"""Connections to the API server that are cut or stall: the operator hears again, or says so."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from e2e_kubectl import Kubectl
from operator_scene import OperatorScene, play, through
from real_people import eventually
from valve import Valve

pytestmark = pytest.mark.usefixtures("our_kinds")
SLOW_LEASE = {"LEASE_SECONDS": "120", "WATCH_SILENCE_SECONDS": "16", "RESYNC_SECONDS": "3"}


def server_of(kubeconfig: Path) -> tuple[str, int]:
    config = yaml.safe_load(kubeconfig.read_text())
    address = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert address.hostname is not None
    return address.hostname, address.port or 443


def test_what_changed_while_the_connections_were_cut_is_applied(
    tmp_path: Path, kubectl: Kubectl
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        with Valve(*server_of(kubectl.kubeconfig)) as valve:
            kubeconfig = through(scene.kubeconfig, valve.port, tmp_path / "through")
            # No resync comes to help: what is heard is heard by the watches.
            settings = SLOW_LEASE | {"RESYNC_SECONDS": "3600"}
            operator = scene.operator(kubeconfig=kubeconfig, **settings)
            await asyncio.to_thread(operator.wait_ready)
            await scene.is_ready(await scene.give_topic("before"))
            for number in range(3):
                valve.turn("cut")
                ref = await scene.give_topic(f"during-{number}")
                valve.turn("open")
                await scene.is_ready(ref)
            assert await asyncio.to_thread(operator.asked, "/healthz") == (200, "ok\n")

    play(tmp_path, kubectl, scenario)


def test_connections_that_stall_fail_the_probe_and_are_heard_again(
    tmp_path: Path, kubectl: Kubectl
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        with Valve(*server_of(kubectl.kubeconfig)) as valve:
            kubeconfig = through(scene.kubeconfig, valve.port, tmp_path / "through")
            operator = scene.operator(kubeconfig=kubeconfig, **SLOW_LEASE)
            await asyncio.to_thread(operator.wait_ready)
            await scene.is_ready(await scene.give_topic("before"))

            valve.turn("stalled")
            ref = await scene.give_topic("during")
            await eventually(
                lambda: asyncio.to_thread(lambda: operator.asked("/healthz")[0] == 503),
                "the probe says that the operator is deaf",
            )
            valve.turn("open")
            await scene.is_ready(ref, within_s=120)
            await eventually(
                lambda: asyncio.to_thread(lambda: operator.asked("/healthz")[0] == 200),
                "the probe is content again",
            )

    play(tmp_path, kubectl, scenario)
