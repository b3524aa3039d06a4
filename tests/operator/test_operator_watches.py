"""Watches: what they tell, and how they are begun anew when they end or go deaf."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kopf._cogs.aiokits.aiotasks import Scheduler

from iggy_operator.clock import SystemClock
from iggy_operator.cluster import Object, Ref
from iggy_operator.program import watches as watches_module
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_kinds import API_KINDS, SPARK_KINDS
from iggy_operator.program.watches import Ears, Watches
from scripted_api import access_to, scripted
from watched_api import WatchedApi

WITHIN_S = 40.0


class Listener:
    """Remembers what it was told, on the loop of the test."""

    def __init__(self) -> None:
        self.told: list[tuple[Ref, Object | None]] = []
        self._moved = asyncio.Event()

    def __call__(self, ref: Ref, value: Object | None) -> None:
        self.told.append((ref, value))
        self._moved.set()

    async def must_hear(self, ref: Ref) -> Object | None:
        """The next word of this object."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for index, (found, value) in enumerate(self.told):
                    if found == ref:
                        del self.told[: index + 1]
                        return value
                self._moved.clear()
                await self._moved.wait()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 -- conditions of many kinds
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches_module, "LOOK_S", 0.05)
    monkeypatch.setattr(watches_module, "pause_s", lambda failures, chance: 0.05)


def run(
    folder: Path,
    scenario: Callable[[WatchedApi, Listener, Watches], Awaitable[None]],
    **ears: Any,
) -> None:
    """Watches on a small API, and a scenario beside them."""

    async def main() -> None:
        api, listener = WatchedApi(), Listener()
        async with scripted(lambda request: api.answer(request)) as server:
            access = access_to(folder, server.url)
            client = ApiClient(access)
            watches = Watches(
                Ears(
                    client=client,
                    clock=SystemClock(),
                    chance=lambda: 0.5,
                    told=listener,
                    new_access=lambda: access,
                    **ears,
                )
            )
            running = asyncio.create_task(watches.run())
            path = API_KINDS["IggyTopic"].path(namespace=next(iter(ears.get("namespaces", ("",)))))
            await until(lambda: api.watches[path])
            try:
                await scenario(api, listener, watches)
            finally:
                running.cancel()
                await asyncio.wait((running,))
                await client.close()

    asyncio.run(main())


def topic(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", **metadata}}


def test_an_objects_event_is_told_with_its_value_and_a_deletion_without(tmp_path: Path) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        api.tell("IggyTopic", "ADDED", topic("orders"))
        value = await listener.must_hear(Ref("IggyTopic", "shop", "orders"))
        assert value is not None
        assert value["kind"] == "IggyTopic"
        assert value["metadata"]["resourceVersion"] == str(api.version)

        api.tell("IggyTopic", "DELETED", topic("orders"))
        assert await listener.must_hear(Ref("IggyTopic", "shop", "orders")) is None

    run(tmp_path, scenario)


def test_a_childs_event_is_told_of_its_owner(tmp_path: Path) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        await until(lambda: api.watches[API_KINDS["Pod"].path()])
        labels = {"iggykube.dev/sink": "orders.lake", "iggykube.dev/broker": "main"}
        api.tell("Pod", "MODIFIED", topic("lake-0", labels=labels))
        assert await listener.must_hear(Ref("IggySink", "shop", "orders.lake")) is None

        asked = [query for path, query in api.asked if path == API_KINDS["Pod"].path()]
        assert asked
        for query in asked:
            assert query["labelSelector"] == "app.kubernetes.io/managed-by=iggy-operator"

    run(tmp_path, scenario)


def test_what_the_first_list_shows_is_told_of_our_own_kinds_only(tmp_path: Path) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        api.objects[API_KINDS["IggyTopic"].path()].append(topic("orders"))
        labels = {"iggykube.dev/broker": "main"}
        api.objects[API_KINDS["Pod"].path()].append(topic("main-0", labels=labels))
        this = watches._round
        assert this is not None
        this._stop.set()  # the thread ends, and all is begun anew
        await until(lambda: watches._round is not this)

        await listener.must_hear(Ref("IggyTopic", "shop", "orders"))
        await until(lambda: api.watches[API_KINDS["Pod"].path()])
        assert Ref("IggyBroker", "shop", "main") not in [ref for ref, _ in listener.told]

    run(tmp_path, scenario)


def test_streams_that_are_cut_go_on_where_they_were(tmp_path: Path) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        for number in range(3):
            before = len(api.asked)
            api.cut()
            await until(lambda before=before: len(api.asked) > before)
            await until(lambda: api.watches[API_KINDS["IggyTopic"].path()])
            api.tell("IggyTopic", "ADDED", topic(f"t{number}"))
            await listener.must_hear(Ref("IggyTopic", "shop", f"t{number}"))

    run(tmp_path, scenario)


def test_bookmarks_are_signs_of_life(tmp_path: Path) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        wanted = {"IggyBroker", "IggyTopic", "Pod", "Job", "StatefulSet", "PersistentVolumeClaim"}
        assert wanted <= watches.silences_s().keys()
        await until(lambda: sum(map(len, api.watches.values())) >= len(watches.silences_s()))
        await until(lambda: watches.silences_s()["IggyTopic"] > 0.3)

        api.bookmark()

        await until(lambda: watches.silences_s()["IggyTopic"] < 0.3)
        assert watches.trouble() == ""

    run(tmp_path, scenario)


def test_deaf_watches_are_begun_anew_and_trouble_is_told_when_that_does_not_help(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        first = watches._round
        refused = api.answer

        async def deaf(request: Any) -> Any:
            await asyncio.Event().wait()

        api.answer = deaf  # type: ignore[method-assign]
        api.cut()
        await until(lambda: watches._round is not first)
        await until(lambda: "brought nothing" in watches.trouble())

        api.answer = refused  # type: ignore[method-assign]
        await until(lambda: watches.trouble() == "")
        await until(lambda: api.watches[API_KINDS["IggyTopic"].path()])
        api.tell("IggyTopic", "ADDED", topic("orders"))
        await listener.must_hear(Ref("IggyTopic", "shop", "orders"))

    run(tmp_path, scenario, silence_s=4.0)
    assert "watches begin anew" in caplog.text


def test_a_spark_operator_that_is_installed_later_is_watched_and_one_that_goes_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches_module, "SCOPE_LOOK_S", 0.3)
    name, kind = next(iter(SPARK_KINDS.items()))

    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        api.kinds[name] = kind
        await until(lambda: api.watches[kind.path()])
        labels = {"iggykube.dev/sink": "orders.lake"}
        api.tell(name, "MODIFIED", topic("lake", labels=labels))
        await listener.must_hear(Ref("IggySink", "shop", "orders.lake"))

        del api.kinds[name]
        api.cut()
        await until(lambda: name not in watches.silences_s())
        await until(lambda: api.watches[API_KINDS["IggyTopic"].path()])
        api.tell("IggyTopic", "ADDED", topic("orders"))
        await listener.must_hear(Ref("IggyTopic", "shop", "orders"))

    run(tmp_path, scenario)


def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await watches_module._cancel([task])
        assert task.cancelled()

    asyncio.run(main())


def test_a_worker_that_was_just_handed_over_is_ended_and_not_dropped() -> None:
    """Dropped, it is a coroutine that was never awaited: a warning, at any later time."""

    async def worker() -> None:
        await asyncio.Event().wait()

    async def watcher() -> None:
        scheduler = Scheduler()
        try:
            await asyncio.sleep(0)
            await scheduler.spawn(worker())
            await asyncio.Event().wait()
        finally:
            closing = asyncio.create_task(scheduler.close())
            while not closing.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(closing)

    async def main(turns: int) -> None:
        task = asyncio.create_task(watcher())
        for _ in range(turns):
            await asyncio.sleep(0)
        await watches_module._cancel(asyncio.all_tasks() - {asyncio.current_task()})
        assert task.done()

    for turns in range(8):
        asyncio.run(main(turns))
        gc.collect()


def test_a_namespace_that_ends_leaves_the_watches_of_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches_module, "SCOPE_LOOK_S", 0.3)
    topics = API_KINDS["IggyTopic"]

    async def scenario(api: WatchedApi, listener: Listener, watches: Watches) -> None:
        both, first = watches.silences_s(), watches._round
        await until(lambda: api.watches[topics.path(namespace="gone")])
        api.denied = {"gone"}  # our Role went with it
        api.cut()
        await until(lambda: watches._round is not first)
        await until(lambda: sum(map(len, api.watches.values())) == len(both))
        second = watches._round
        api.bookmark()
        api.tell("IggyTopic", "ADDED", topic("orders"))
        await listener.must_hear(Ref("IggyTopic", "shop", "orders"))
        assert watches._round is second

        api.denied = set()
        await until(lambda: api.watches[topics.path(namespace="gone")])

    run(tmp_path, scenario, namespaces=("shop", "gone"))
