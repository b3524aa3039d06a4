"""IggyBroker: with mode External whether it answers and lets us in, and how it is doing."""

from iggy_operator.blocked import Blocked
from iggy_operator.cache import Entry
from iggy_operator.conditions import CREDENTIALS_READY, READY, condition
from iggy_operator.kinds import broker_managed
from iggy_operator.kinds.broker_report import stats_fields
from iggy_operator.kinds.common import Release, Verdict, World
from iggy_operator.objects import is_deleting
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker
from iggy_operator.status import Report


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked, BrokerError, ClusterError."""
    assert isinstance(entry.resource, Broker)
    if is_deleting(entry.value):
        raise Blocked(Reason.DELETING, "the object is being deleted", ready="False")
    if entry.resource.mode == "Managed":
        return await broker_managed.reconcile(world, entry, may_act=may_act)
    admin = await world.brokers.admin(world.cluster, entry)
    stats, users_count = await admin.stats(), await admin.users_count()
    address = admin.login.address
    conditions = (
        condition(READY, True, Reason.SYNCED, f"{address} answers"),
        condition(CREDENTIALS_READY, True, Reason.SYNCED),
    )
    fields = {
        "endpoints": {"tcp": address, "http": entry.resource.spec["external"]["http"]},
        **stats_fields(stats, users_count),
    }
    return Verdict(Report(conditions, fields))


async def release(world: World, entry: Entry) -> Release:
    """An external broker is left as it is; Kubernetes deletes what belongs to a managed one."""
    return Release()
