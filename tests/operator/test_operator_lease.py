"""One replica works: who gets the Lease, who keeps it, who must stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from iggy_operator.cluster import (
    ConflictError,
    NotFoundError,
    Ref,
    ServerFailedError,
    UnreachableError,
)
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.lease import Lease, LeaseLostError, identity_of
from simulation.loop import Schedule, SimulatedLoop

DURATION_S = 15
REF = Ref("Lease", "iggy-system", "iggy-operator")


class LeaseApi:
    """One Lease, as the API server keeps it."""

    def __init__(self) -> None:
        self.value: dict[str, Any] | None = None
        self.version = 0
        self.fail: Callable[[], Exception | None] = lambda: None

    async def get(self, path: str) -> dict[str, Any]:
        self._check(path)
        if self.value is None:
            raise NotFoundError(path)
        return {**self.value}

    async def request(self, method: str, path: str, *, body: Mapping[str, Any]) -> Any:
        self._check(path)
        if method == "POST" and self.value is not None:
            raise ConflictError("it exists")
        if method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("it has been modified")
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.value = {**body, "metadata": metadata}
        return self.value

    def _check(self, path: str) -> None:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/iggy-system/leases")
        if (error := self.fail()) is not None:
            raise error

    @property
    def holder(self) -> str:
        assert self.value is not None
        return str(self.value["spec"]["holderIdentity"])


class LoopClock:
    """The time of the loop that runs."""

    def now_s(self) -> float:
        return 1_800_000_000 + self.monotonic_s()

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


async def lease(api: LeaseApi, identity: str) -> Lease:
    client = cast(ApiClient, api)
    return Lease(client, LoopClock(), REF, identity=identity, duration_s=DURATION_S)


def run(scenario: Callable[[LeaseApi], Awaitable[None]]) -> None:
    """On a loop whose time passes only while everybody waits."""
    schedule = Schedule(1)
    loop = SimulatedLoop(schedule, "replica")
    task = loop.create_task(cast(Any, scenario(LeaseApi())))
    schedule.run_until(task, limit_s=10_000)


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_the_first_one_gets_it_at_once() -> None:
    async def scenario(api: LeaseApi) -> None:
        await (await lease(api, "a")).acquire()

        assert api.holder == "a"
        assert now_s() == 0

    run(scenario)


def test_a_second_one_waits_as_long_as_the_first_renews() -> None:
    async def scenario(api: LeaseApi) -> None:
        first, second = await lease(api, "a"), await lease(api, "b")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())

        await asyncio.sleep(1_000)
        assert not waiting.done()
        assert not holding.done()
        assert second.holder == "a"

        # The first one is killed: nothing is renewed any more.
        holding.cancel()
        killed_s = now_s()
        await waiting
        assert api.holder == "b"
        assert now_s() - killed_s <= DURATION_S * 5 / 3
        assert api.value is not None
        assert api.value["spec"]["leaseTransitions"] == 1

    run(scenario)


def test_one_that_was_given_back_is_taken_soon() -> None:
    async def scenario(api: LeaseApi) -> None:
        first, second = await lease(api, "a"), await lease(api, "b")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(1)

        await first.release()
        begun_s = now_s()
        await waiting

        assert api.holder == "b"
        assert now_s() - begun_s <= DURATION_S / 3

    run(scenario)


def test_who_gives_back_what_is_somebody_elses_changes_nothing() -> None:
    async def scenario(api: LeaseApi) -> None:
        await (await lease(api, "a")).acquire()
        before = api.version

        await (await lease(api, "b")).release()

        assert api.version == before

    run(scenario)


def test_a_holder_that_cannot_renew_stops_before_anybody_else_begins() -> None:
    async def scenario(api: LeaseApi) -> None:
        first, second = await lease(api, "a"), await lease(api, "b")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        await asyncio.sleep(60)
        asked: list[asyncio.Task[Any] | None] = []

        def fail() -> Exception | None:  # only the holder is cut off
            asked.append(asyncio.current_task())
            return UnreachableError("cut off") if asked[-1] is holding else None

        api.fail = fail
        waiting = asyncio.create_task(second.acquire())
        with pytest.raises(LeaseLostError, match="could not be renewed"):
            await holding
        stopped_s = now_s()
        assert not waiting.done()
        assert asked.count(holding) >= 3

        await waiting
        assert now_s() > stopped_s

    run(scenario)


def test_a_holder_without_any_answer_stops_in_time() -> None:
    async def scenario(api: LeaseApi) -> None:
        first = await lease(api, "a")
        await first.acquire()

        async def silence(path: str) -> dict[str, Any]:
            await asyncio.sleep(10_000)
            raise AssertionError(path)

        api.get = silence  # type: ignore[method-assign]
        with pytest.raises(LeaseLostError):
            await first.hold()
        assert now_s() == pytest.approx(DURATION_S * 2 / 3, abs=0.01)

    run(scenario)


def test_a_short_failure_is_no_loss() -> None:
    async def scenario(api: LeaseApi) -> None:
        first = await lease(api, "a")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        failures = 0

        def fail() -> Exception | None:
            nonlocal failures
            failures += 1
            return None if failures % 3 else ServerFailedError("restarting")

        api.fail = fail
        await asyncio.sleep(200)
        assert not holding.done()
        holding.cancel()

    run(scenario)


def test_a_lease_that_somebody_else_has_taken_is_lost_at_once() -> None:
    async def scenario(api: LeaseApi) -> None:
        first = await lease(api, "a")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        assert api.value is not None
        await api.request(
            "PUT", "/apis/coordination.k8s.io/v1/namespaces/iggy-system/leases/iggy-operator",
            body={**api.value, "spec": {**api.value["spec"], "holderIdentity": "b"}},
        )  # fmt: skip

        with pytest.raises(LeaseLostError, match="held by b"):
            await holding

    run(scenario)


def test_two_processes_with_one_pods_name_never_work_at_once() -> None:
    async def scenario(api: LeaseApi) -> None:
        first, second = await lease(api, identity_of("a")), await lease(api, identity_of("a"))
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())

        await asyncio.sleep(1_000)
        assert not waiting.done()
        assert second.holder == api.holder
        assert api.holder.startswith("a_")

        holding.cancel()
        waiting.cancel()

    run(scenario)


def test_who_does_not_know_whether_it_got_the_lease_finds_out() -> None:
    async def scenario(api: LeaseApi) -> None:
        request = api.request

        async def lose_the_answer(method: str, path: str, *, body: Mapping[str, Any]) -> Any:
            api.request = request  # type: ignore[method-assign]
            await request(method, path, body=body)
            raise UnreachableError("cut off")

        api.request = lose_the_answer  # type: ignore[method-assign]
        await (await lease(api, "a")).acquire()

        assert now_s() == pytest.approx(DURATION_S / 3, abs=0.01)

    run(scenario)
