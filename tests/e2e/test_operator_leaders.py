"""Two replicas of the operator and one Lease."""

import asyncio
from pathlib import Path

import pytest

from e2e_kubectl import Kubectl
from operator_scene import OperatorScene, play
from real_people import eventually

pytestmark = pytest.mark.usefixtures("our_kinds")


def test_a_standby_takes_over_from_a_leader_that_is_killed_and_from_one_that_stops(
    tmp_path: Path, kubectl: Kubectl
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        first = await scene.ready_operator()
        second = await scene.ready_operator()
        assert await asyncio.to_thread(first.is_leader)
        assert not await asyncio.to_thread(second.is_leader)
        await scene.is_ready(await scene.give_topic("one"))

        first.kill()
        await eventually(lambda: asyncio.to_thread(second.is_leader), "the second one leads")
        await scene.is_ready(await scene.give_topic("two"))

        first.start()
        await asyncio.to_thread(first.wait_ready)
        assert not await asyncio.to_thread(first.is_leader)
        assert await asyncio.to_thread(second.stop) == 0
        assert second.said("the Lease is free")
        await eventually(lambda: asyncio.to_thread(first.is_leader), "the first one leads again")
        await scene.is_ready(await scene.give_topic("three"))
        assert scene.topics() == dict.fromkeys(("one", "two", "three"), 1)

    play(tmp_path, kubectl, scenario)


def test_a_leader_whose_lease_is_taken_ends_with_3(tmp_path: Path, kubectl: Kubectl) -> None:
    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator()
        await eventually(lambda: asyncio.to_thread(operator.is_leader), "it leads")

        patch = '{"spec": {"holderIdentity": "somebody-else"}}'
        kubectl("patch", "lease", "iggy-operator", "--type=merge", f"--patch={patch}")

        assert operator.process is not None
        assert await asyncio.to_thread(operator.process.wait, 30) == 3
        assert operator.said("the Lease is lost")

    play(tmp_path, kubectl, scenario)
