"""The archive of a managed broker: whose place it is, its volume, how it is doing."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from iggy_operator.blocked import Blocked
from iggy_operator.brokers import read_secret, secret_text
from iggy_operator.cache import Entry
from iggy_operator.cluster import Object
from iggy_operator.decide.archives import ArchiveVolume, archive_may_grow, decide_archive
from iggy_operator.desired.archive import (
    archive_place,
    archiver_authority,
    archiver_login,
    claim_wishes,
    data_conflict,
    is_shared,
    restore_authority,
    restore_login,
)
from iggy_operator.desired.encryption import key_names
from iggy_operator.desired.transports import MONITORING_PORT
from iggy_operator.figures import PREFIX, ArchiveFigures, FiguresError, archive_figures
from iggy_operator.kinds import broker_children as children
from iggy_operator.kinds.archive_report import ArchiveFacts, archives
from iggy_operator.kinds.common import World
from iggy_operator.names import CA_KEY
from iggy_operator.objects import address_of, age_order
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker


def check_place(world: World, entry: Entry, broker: Broker) -> None:
    """Two brokers never archive to one place: the oldest object has it. Raises Blocked."""
    if (place := archive_place(broker)) is None:
        return
    for other in world.cache.of_kind("IggyBroker"):
        if other.ref == entry.ref or not isinstance(other.resource, Broker):
            continue
        if data_conflict(place, other.resource):
            text = f"archiver: {place} is the data of {other.ref}: use another claim"
            raise Blocked(Reason.CONFLICT, text)
        is_older = age_order(other.value) < age_order(entry.value)
        if is_older and is_shared(place, other.resource):
            text = f"archiver: {other.ref} is older and archives to {place}, too: choose another"
            raise Blocked(Reason.CONFLICT, f"{text} prefix, bucket or claim")


async def volume(world: World, entry: Entry, broker: Broker) -> tuple[ArchiveVolume, Object | None]:
    """What is done about a volume of its own, and its claim. Raises ClusterError."""
    if claim_wishes(broker) is None:
        return ArchiveVolume(broker), None
    claim = await children.found(world.cluster, children.archive_claim_ref(entry))
    obstacle = ""
    if claim is not None and archive_may_grow(broker, claim):
        obstacle = await children.growth_obstacle(world, entry, claim)
    return decide_archive(broker, claim, obstacle=obstacle), claim


async def look(
    world: World, broker: Broker, made: ArchiveVolume, pod: Object | None
) -> ArchiveFacts:
    """How it is doing. `pod`: the one that serves, None where none does. Raises ClusterError."""
    place = archive_place(broker)
    archiver = broker.spec["archiver"]
    if place is None:
        return ArchiveFacts(archiver, None, made)
    wanted = [*archiver_login(broker).values(), (archiver_authority(broker), CA_KEY)]
    problem = await _missing(world, broker, wanted)
    figures: ArchiveFigures | None = None
    silence = ""
    if pod is not None and archives(pod):
        try:
            figures = await _figures(world, pod)
        except FiguresError as error:
            silence = f"nobody knows how copies to {place} go: {error}"
    return ArchiveFacts(archiver, place, made, problem, figures, silence)


async def waits_for(world: World, broker: Broker) -> Blocked | None:
    """A Secret without which the pod cannot start, and that is not there. Raises ClusterError."""
    keys = broker.spec.get("encryption", {})
    wanted = [
        *archiver_login(broker).values(),
        *restore_login(broker).values(),
        (archiver_authority(broker), CA_KEY),
        (restore_authority(broker), CA_KEY),
        *((keys["secretName"], name) for name in key_names(broker)),
    ]
    return await _missing(world, broker, wanted)


async def _missing(
    world: World, broker: Broker, wanted: Iterable[tuple[str, str]]
) -> Blocked | None:
    """The first that is wrong with entries of Secrets, each a name (empty: none) and a key."""
    named = [row for row in wanted if row[0]]
    try:
        for name, rows in groupby(named, key=itemgetter(0)):
            secret = await read_secret(world.cluster, broker.key.namespace, name)
            for _, key in rows:
                secret_text(secret, key)
    except Blocked as problem:
        return problem
    return None


async def _figures(world: World, pod: Object) -> ArchiveFigures:
    address = address_of(pod, MONITORING_PORT)
    if address is None:
        raise FiguresError("its pod has no address yet")
    return archive_figures(await world.read_metrics(address, PREFIX))
