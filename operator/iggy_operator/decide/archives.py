"""The volume of a broker's archive: what of it can be had."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from iggy_operator import units
from iggy_operator.decide.brokers import Object, growth, requested
from iggy_operator.desired.archive import claim_wishes
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker

FIELD = "archiver.disk.size"


@dataclass(frozen=True, slots=True)
class ArchiveVolume:
    """What is done about it."""

    broker: Broker
    """The spec to render: with the volume that can be had."""
    grow_to: str = ""
    """Size that the claim shall ask for from now on."""
    reason: Reason = Reason.SYNCED
    problem: str = ""


def decide_archive(broker: Broker, claim: Object | None, *, obstacle: str) -> ArchiveVolume:
    """`obstacle`: why the claim cannot grow, if it cannot."""
    wanted = claim_wishes(broker)
    if wanted is None:
        return ArchiveVolume(broker)
    has = wanted["size"] if claim is None else requested(claim)
    grow_to, reason, problem = growth(FIELD, wanted["size"], has, claim, obstacle)
    if problem and claim is not None:
        broker = _with_size(broker, has)
    return ArchiveVolume(broker, grow_to, reason, problem)


def archive_may_grow(broker: Broker, claim: Object | None) -> bool:
    """Whether the spec asks for more than the claim does, so that its class matters."""
    wanted = claim_wishes(broker)
    if claim is None or wanted is None:
        return False
    return units.quantity(wanted["size"]) > units.quantity(requested(claim))


def _with_size(broker: Broker, size: str) -> Broker:
    archiver: Mapping[str, Any] = broker.spec["archiver"]
    disk = {**archiver.get("disk", {}), "size": size}
    return replace(broker, spec={**broker.spec, "archiver": {**archiver, "disk": disk}})
