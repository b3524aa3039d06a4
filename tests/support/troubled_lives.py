"""The same life of an operator, lived again and again, each time with trouble at another place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from iggy_client import LinkError
from operator_world import OperatorWorld
from planted_faults import Killed, Made

W = TypeVar("W", bound=OperatorWorld)


async def live(world: OperatorWorld) -> None:
    """Until all has come to rest, in as many lives as it takes."""
    try:
        await world.resync()
        await world.go(130)
    except Killed:
        world.faults.kill_after_write = None
        world.start()
        await world.resync()
        await world.go(130)


def concerns(fault: Exception, call: Made) -> bool:
    """A broken link is one to the broker, whose requests are named in capitals."""
    return call.verb[0].isupper() == isinstance(fault, LinkError)


@dataclass(frozen=True)
class Lives(Generic[W]):
    """Each ends as `life` asserts. `run` gives it a fresh world, and the world afterwards."""

    run: Callable[[Callable[[W], Any]], W]
    life: Callable[[W], Awaitable[None]]

    def check_kills(self, *, more_than: int) -> None:
        """The process ends after each single write; in a whole life there are `more_than`."""
        writes_count = len(self._killed(None).faults.writes)
        assert writes_count > more_than
        for at in range(1, writes_count + 1):
            assert self._killed(at).faults.kill_after_write is None, f"write {at} never came"

    def _killed(self, after: int | None) -> W:
        async def scenario(world: W) -> None:
            world.faults.kill_after_write = after
            await self.life(world)

        return self.run(scenario)

    def check_faults(
        self,
        fault: Exception,
        may_hit: Callable[[Made], bool],
        *,
        lost: bool,
        every: int,
        more_than: int,
    ) -> None:
        """A call fails, or its answer is lost: one in so many of those that a fault may hit.

        In a whole life there are `more_than` of these.
        """
        calls_count = self._hit(fault, may_hit, at=0, lost=lost)
        assert calls_count > more_than
        for at in range(1, calls_count, every):
            assert self._hit(fault, may_hit, at=at, lost=lost) >= at

    def _hit(
        self, fault: Exception, may_hit: Callable[[Made], bool], *, at: int, lost: bool
    ) -> int:
        hit: list[Made] = []

        def strike(call: Made) -> Exception | None:
            if not may_hit(call):
                return None
            hit.append(call)
            return fault if len(hit) == at else None

        async def scenario(world: W) -> None:
            if lost:
                world.faults.lose = strike
            else:
                world.faults.fail = strike
            await self.life(world)

        self.run(scenario)
        return len(hit)
