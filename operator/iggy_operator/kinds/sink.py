"""IggySink: says that it is not run yet."""

from iggy_operator.blocked import Blocked
from iggy_operator.cache import Entry
from iggy_operator.kinds.common import Release, Verdict, World
from iggy_operator.reasons import Reason


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked."""
    raise Blocked(Reason.UNSUPPORTED, "this operator does not run sinks yet")


async def release(world: World, entry: Entry) -> Release:
    """Nothing in the broker belongs to a sink."""
    return Release()
