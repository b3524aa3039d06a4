"""Every field that a schema has for a status is written by some pass."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from fake_broker import ADDRESS
from iggy_operator.cluster import Ref
from iggy_operator.schema import schemas
from managed_world import BROKER, ManagedWorld, run_managed, started
from operator_world import OperatorWorld, given_all, run_in
from server_certificates import server_secret
from sink_scene import GROUP, SINK, SOURCE, TOPIC, Scene, play

KINDS = ("IggyBroker", "IggyStream", "IggyTopic", "IggySink", "IggySource", "IggyUser")
USER = Ref("IggyUser", "shop", "fraud")
STARTED = ['iggy_sink_start_partitions{namespace="shop",sink="lake",by="settings"} 1.0']
ERRORS = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}


def fields(kind: str) -> list[str]:
    return sorted(_fields(schemas()[kind].root["properties"]["status"]))


def _fields(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    properties = node.get("properties") or node.get("items", {}).get("properties")
    if not properties:
        yield path
    for name, child in (properties or {}).items():
        yield from _fields(child, f"{path}.{name}".lstrip("."))


def written(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from written(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        yield path
        for item in value:
            yield from written(item, path)
    else:
        yield path


Seen = set[tuple[str, str]]


def note(seen: Seen, world: OperatorWorld) -> None:
    for ref, value in world.cluster.objects.items():
        if ref.kind in KINDS:
            seen |= {(ref.kind, path) for path in written(value.get("status", {}))}


def of_a_managed_broker(seen: Seen) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.broker.disk = (1000, 400)
        listeners = {
            "serviceType": "LoadBalancer",
            "tcpPort": 8090,
            "httpPort": 3000,
            "websocketPort": 8092,
            "quicPort": 8080,
            "tls": {"secretName": "main-tls"},
        }
        start = datetime.datetime.fromtimestamp(world.clock.now_s(), datetime.UTC)
        world.give_secret("main-tls", **server_secret("main.shop.svc", now=start))
        await started(world, updateStrategy="OnDelete", listeners=listeners)
        service = Ref("Service", "shop", "main")
        world.cluster.change(service, status={"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}})
        world.cluster.change_spec(BROKER, image="other:1")
        await world.go(70)
        note(seen, world)
        world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
        await world.go(70)
        note(seen, world)

    run_managed(scenario)


def of_an_archive(seen: Seen) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.metrics = [f"iggy_archiver_{name} 1" for name in ("failing", "last_copy_seconds")]
        world.sets.restores = '{"restored": {"archive": "s3://abc/shop/main", "streams": 1}}'
        await started(world, archiver={"kind": "S3", "s3": {"bucket": "abc"}}, restoreFrom={})
        note(seen, world)

    run_managed(scenario)


def of_streams_topics_and_users(seen: Seen) -> None:
    async def scenario(world: OperatorWorld) -> None:
        external = {"tcp": ADDRESS, "http": "https://iggy", "credentialsSecretName": "root"}
        world.give_broker(external=external)
        world.give_stream()
        topic = world.give_topic(
            durability={"profile": "Custom", "enforceFsync": True, "flushMessages": 5,
                        "flushBytes": "1Mi"}
        )  # fmt: skip
        permissions = {"streams": [{"stream": "none", "allow": ["ReadStream"]}]}
        world.give_user(accessTokens=[{"name": "robot", "expiry": "1h"}], permissions=permissions)
        await world.resync()
        world.cluster.annotate(USER, "rotate-password-at", "2026-05-01T12:00:00Z")
        world.broker.drop_topic("shop", "orders")
        await world.go(130)
        world.broker.make_topic("shop", "orders-2", partitions=4)
        world.give_topic("orders-2", driftPolicy="Report", partitions=2)
        await world.go(130)
        assert world.status(topic)["recreations"] == 1
        note(seen, world)

    run_in(scenario)


def of_sinks(seen: Seen) -> None:
    async def scenario(scene: Scene) -> None:
        world = scene.world
        world.metrics = STARTED
        await scene.given("Kubeflow", errors=ERRORS)
        world.cluster.change_spec(TOPIC, retention={"messageExpiry": "1h"})
        (application,) = scene.launchers.applications()
        application["status"] |= {
            "sparkApplicationId": "spark-1",
            "driverInfo": {"podName": "d", "webUIServiceName": "ui"},
        }
        world.broker.groups["shop", "orders"] = [GROUP]
        world.broker.message_time_us = int(world.clock.now_s() - 5) * 1_000_000
        place = ("shop", "orders", GROUP, 0)
        for stored in (100, 400):
            world.broker.ends["shop", "orders", 0] = 1_000
            world.broker.stored[place] = world.broker.ends["shop", "dead", 0] = stored
            await scene.go(70)
        note(seen, world)
        world.cluster.annotate(SINK, "restart-at", "2026-05-01T12:00:00Z")
        await scene.go(60)
        note(seen, world)
        scene.launchers.exits = 2
        await scene.go(120)
        note(seen, world)

    play(scenario)


def of_sources(seen: Seen) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given("Kubeflow")
        (application,) = scene.launchers.applications()
        application["status"] |= {
            "sparkApplicationId": "spark-1",
            "driverInfo": {"podName": "d", "webUIServiceName": "ui"},
        }
        await scene.go(70)
        note(seen, scene.world)
        scene.world.cluster.annotate(SOURCE, "restart-at", "2026-05-01T12:00:00Z")
        await scene.go(60)
        note(seen, scene.world)
        scene.launchers.exits = 2
        await scene.go(120)
        note(seen, scene.world)

    play(scenario, SOURCE)


def of_sinks_of_topics(seen: Seen) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.metrics = STARTED
        entry = {"name": "lake", "type": "Console", "spark": {"launcher": "Native"}}
        source = {"name": "made", "type": "Random", "random": {}, "checkpoint": {"volume": {}}}
        await given_all(scene.world, sinks=[entry], sources=[source])
        scene.world.broker.ends["shop", "orders", 0] = 10
        await scene.go(240)
        assert scene.world.status(TOPIC)["sinks"], scene.world.status(TOPIC)
        note(seen, scene.world)

    play(scenario)


SCENARIOS: tuple[Callable[[Seen], None], ...] = (
    of_a_managed_broker,
    of_an_archive,
    of_streams_topics_and_users,
    of_sinks,
    of_sources,
    of_sinks_of_topics,
)


@cache
def seen() -> frozenset[tuple[str, str]]:
    result: Seen = set()
    for scenario in SCENARIOS:
        scenario(result)
    return frozenset(result)


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, path) for kind in KINDS for path in fields(kind)]
)
def test_a_field_of_a_status_is_written(kind: str, field: str) -> None:
    assert (kind, field) in seen(), f"no pass writes status.{field} of {kind}: remove it, or do"
