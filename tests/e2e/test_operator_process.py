"""The operator as a process, with a real API server and a real broker: what it does and leaves."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker_process import PASSWORD
from e2e_kubectl import Kubectl, as_yaml
from iggy_operator.program.metrics import FAMILIES
from operator_account import grant
from operator_scene import OperatorScene, play
from real_people import eventually

pytestmark = pytest.mark.usefixtures("our_kinds")


def test_a_topic_becomes_ready_and_nothing_but_its_status_is_written(
    tmp_path: Path, kubectl: Kubectl
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator()
        spec = {"streamRef": {"name": "shop"}, "partitions": 3}
        document = scene.document("IggyTopic", "orders", spec)
        kubectl("apply", "--filename=-", stdin=as_yaml([document]))
        ref = await scene.give("IggyTopic", "orders", **spec)
        before = await scene.people.get(ref)

        after = await scene.is_ready(ref)
        assert scene.topics() == {"orders": 3}
        assert after["status"]["partitions"] == 3
        assert after["spec"] == before["spec"]
        for name in ("annotations", "finalizers", "labels", "ownerReferences", "generation"):
            assert after["metadata"].get(name) == before["metadata"].get(name)
        assert kubectl("diff", "--filename=-", stdin=as_yaml([document])) == ""

        # Nothing of kopf on anything, and rest: what is in order is not written again.
        for kind in ("iggybrokers", "iggystreams", "iggytopics"):
            text = json.dumps(kubectl.items(kind))
            assert "kopf" not in text
            assert '"finalizers"' not in text
        assert operator.stop() == 0
        assert [line for line in operator.lines() if line["level"] == "error"] == []

    play(tmp_path, kubectl, scenario)


def test_every_line_of_the_log_says_which_object_it_is_about(
    tmp_path: Path, kubectl: Kubectl
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        await scene.give_broker(address="127.0.0.1:1")
        ref = await scene.give_topic()
        operator = await scene.ready_operator(LOG_LEVEL="debug")

        def about() -> list[dict[str, Any]]:
            return [line for line in operator.lines() if "pass" in line]

        await eventually(
            lambda: asyncio.to_thread(lambda: {line["name"] for line in about()} >= {ref.name}),
            "a line about the topic",
        )
        assert await asyncio.to_thread(operator.stop) == 0
        assert operator.said("this replica works now")
        for line in about():
            assert {"kind", "namespace", "name", "uid", "generation"} <= line.keys()
        assert PASSWORD not in operator.log.read_text()

    play(tmp_path, kubectl, scenario)


def test_a_change_a_deletion_and_a_kill_in_between(tmp_path: Path, kubectl: Kubectl) -> None:
    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator()
        ref = await scene.give_topic(deletionPolicy="Delete")
        held = await scene.is_ready(ref)
        assert held["metadata"]["finalizers"] == ["iggykube.dev/in-broker"]

        operator.kill()
        await scene.give_topic(deletionPolicy="Delete", partitions=4)
        await scene.give_topic("bills")
        operator.start()
        await scene.is_ready(ref)
        await scene.is_ready(await scene.give_topic("bills"))
        assert scene.topics() == {"orders": 4, "bills": 1}

        operator.kill()
        await scene.people.remove(ref)
        assert not await scene.people.is_gone(ref)
        operator.start()
        await scene.is_gone(ref)
        assert scene.topics() == {"bills": 1}

    play(tmp_path, kubectl, scenario)


def test_probes_and_metrics_of_a_running_operator(tmp_path: Path, kubectl: Kubectl) -> None:
    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator()
        await scene.is_ready(await scene.give_topic())

        def check() -> None:
            assert operator.asked("/healthz") == (200, "ok\n")
            assert operator.asked("/readyz") == (200, "ok\n")
            text = operator.asked("/metrics")[1]
            for family in FAMILIES:
                assert f"# TYPE {family.name.removesuffix('_total')} {family.kind}" in text
            assert 'iggy_operator_objects{kind="IggyTopic",ready="True"} 1.0' in text
            assert f'broker="{scene.namespace}/main"' in text
            assert 'iggy_operator_watch_last_event_seconds{kind="Pod"}' in text

        await asyncio.to_thread(check)

    play(tmp_path, kubectl, scenario)


def test_several_namespaces_are_watched_and_no_other(
    tmp_path: Path, make_namespace: "object", kubectl: Kubectl
) -> None:
    other: Kubectl = make_namespace()  # type: ignore[operator]

    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator()
        elsewhere = scene.document("IggyStream", "shop", {"brokerRef": {"name": "main"}})
        elsewhere["metadata"]["namespace"] = other.namespace
        made = await scene.people.put(elsewhere)
        await scene.is_ready(await scene.give_topic())
        assert other.get("iggystream", "shop")["status"] == made["status"]
        operator.stop()

        grant(other, home=scene.namespace)
        both = f"{scene.namespace},{other.namespace}"
        await scene.ready_operator(WATCH_NAMESPACES=both)
        await eventually(
            lambda: asyncio.to_thread(
                lambda: "BrokerNotFound" in json.dumps(other.get("iggystream", "shop")["status"])
            ),
            "the other namespace is looked at",
        )

    play(tmp_path, kubectl, scenario)
