"""The whole core on a real loop and the machine's clock: workers, watches, resync, stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from desired_cases import RELEASE
from iggy_client import AsyncClient
from iggy_operator import core as core_module
from iggy_operator.clock import SystemClock
from iggy_operator.cluster import Ref, UnreachableError
from iggy_operator.core import KEY_AGE_S_MAX, RESYNC_S, RESYNCS_MISSED_MAX, Core, Tuning
from iggy_operator.passes import LOADED_AT_ONCE
from operator_world import HandClock, OperatorWorld
from planted_faults import Made
from waiting import WITHIN_S


async def with_core(
    world: OperatorWorld,
    scenario: Callable[[Core], Awaitable[None]],
    *,
    connect: object = None,
    watches: bool = True,
) -> None:
    """Run a scenario beside a core, then stop it."""
    chosen = connect or world.broker.connect
    tuning = Tuning(resync_s=60.0 if watches else 0.05)
    core = Core(world.cluster, chosen, SystemClock(), lambda: 0.5, RELEASE, tuning)  # type: ignore[arg-type]
    world.cluster.watchers.clear()
    if watches:
        world.cluster.watchers.append(
            lambda ref, value: core.changed(ref, value) if ref.kind.startswith("Iggy") else None
        )
    running = asyncio.create_task(core.run())
    try:
        await scenario(core)
    finally:
        core.stop()
        async with asyncio.timeout(WITHIN_S):
            await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 -- conditions of many kinds
            await asyncio.sleep(0.01)


def are_ready(world: OperatorWorld, refs: list[Ref]) -> bool:
    return all(world.says(ref) == ("True", "Synced") for ref in refs)


def test_topics_are_ready_on_a_real_broker_and_follow_their_objects(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1).start()

    async def main() -> None:
        world = OperatorWorld()
        external = {"tcp": broker.address, "http": "http://x", "credentialsSecretName": "root"}
        world.give_broker(external=external)
        world.give_secret("root", username=USERNAME, password=PASSWORD)
        refs = [world.give_topic(f"t{number:02}") for number in range(40)]  # before their stream

        async def scenario(core: Core) -> None:
            await until(lambda: world.says(refs[-1])[1] == "StreamNotFound")
            refs.append(world.give_stream())
            refs.append(world.give_user())
            await until(lambda: are_ready(world, refs))

            world.cluster.change_spec(refs[0], partitions=3)
            await until(lambda: world.status(refs[0])["partitions"] == 3)
            assert core.trouble() == ""

        await with_core(world, scenario, connect=AsyncClient.connect)
        with broker.client() as client:
            assert len(client.get_topics("shop")) == 40
            assert len(client.get_clients()) == 1  # the operator's connection is closed

    try:
        asyncio.run(main())
    finally:
        broker.end()


def test_a_deaf_operator_finds_changes_by_the_resync() -> None:
    async def main() -> None:
        world = OperatorWorld()
        world.give_broker()
        stream = world.give_stream()

        async def scenario(core: Core) -> None:
            await until(lambda: are_ready(world, [stream]))
            topic = world.give_topic(deletionPolicy="Delete")
            await until(lambda: are_ready(world, [topic]))
            world.cluster.remove(topic)
            await until(lambda: topic not in world.cluster.objects)

        await with_core(world, scenario, watches=False)
        assert world.broker.topics == {}

    asyncio.run(main())


def test_lists_that_fail_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "pause_s", lambda failures, chance: 0.01 * failures)

    async def main() -> None:
        world = OperatorWorld()
        world.give_broker()
        stream = world.give_stream()
        lists = 0

        def fail(call: Made) -> Exception | None:
            nonlocal lists
            lists += call.verb == "list"
            return UnreachableError("cut") if call.verb == "list" and lists % 3 else None

        world.faults.fail = fail

        async def scenario(core: Core) -> None:
            await until(lambda: lists > 3)
            world.faults.fail = lambda call: None
            await until(lambda: are_ready(world, [stream]))

        await with_core(world, scenario)

    asyncio.run(main())


def test_others_have_their_turn_while_many_objects_are_read() -> None:
    async def main() -> None:
        world = OperatorWorld()
        for number in range(3 * LOADED_AT_ONCE):
            world.give_stream(name=f"s{number}")
        core = Core(world.cluster, world.broker.connect, SystemClock(), lambda: 0.5, RELEASE)
        seen: set[int] = set()

        async def look() -> None:
            while True:
                seen.add(len(core.cache.of_kind("IggyStream")))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await core._passes.load()
        looking.cancel()

        assert {LOADED_AT_ONCE, 2 * LOADED_AT_ONCE} <= seen

    asyncio.run(main())


def test_a_probe_tells_of_a_resync_that_does_not_end_and_of_a_key_that_waits() -> None:
    async def main() -> None:
        clock, world = HandClock(), OperatorWorld()
        core = Core(world.cluster, world.broker.connect, clock, lambda: 0.5, RELEASE)
        clock.seconds += RESYNCS_MISSED_MAX * RESYNC_S
        assert core.trouble() == ""
        clock.seconds += 1
        assert "resync" in core.trouble()

        core._resynced_s = clock.seconds + KEY_AGE_S_MAX
        core.changed(Ref("IggyTopic", "shop", "orders"))
        clock.seconds += KEY_AGE_S_MAX + 1
        assert "waiting for its pass" in core.trouble()

    asyncio.run(main())


def test_a_stop_before_the_first_list_ends_the_operator() -> None:
    async def main() -> None:
        world = OperatorWorld()
        world.faults.fail = lambda call: UnreachableError("cut")

        async def scenario(core: Core) -> None:
            await until(lambda: bool(world.faults.calls))

        await with_core(world, scenario)

    asyncio.run(main())
