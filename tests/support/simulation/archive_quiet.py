"""When nobody writes and all works: the archive gets what it is to have, and keeps up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from iggy_broker.archive.state_objects import StoredOffsets
from iggy_broker.metadata.placement import unpack
from iggy_broker.metadata.snapshot import encode_snapshot
from iggy_broker.storage.partition import ConsumerKey, Partition
from iggy_client import calls
from iggy_client.errors import ClientError
from iggy_wire import archive
from iggy_wire.batch import build
from iggy_wire.primitives import ConsumerKind, Partitioning
from simulation.oracle import ViolationError
from simulation.settings import ARCHIVER_INTERVAL_S
from simulation.workload import STREAM

if TYPE_CHECKING:
    from simulation.archived import LifeKey
    from simulation.scenario import Scenario

PAUSED = 0.5  # of the lives with an archive
QUIET_LIMIT_S = 30.0  # more than all retries of what has failed, on a slow disk
PASS_LIMIT_S = 6.0  # one pass over all partitions, on a slow disk


async def pause(scenario: Scenario) -> None:
    """Now and then clients do, so that an archiver gets as far as it can with a bad store."""
    archiver, chance = scenario.broker.config.data_maintenance.archiver, scenario.pauses
    if archiver.enabled and chance.random() < PAUSED:
        scenario.open = False
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        scenario.open = True


async def archive_quiet(scenario: Scenario) -> None:
    """Nobody else is in. ViolationError: the archive lacks something."""
    if not scenario.broker.config.data_maintenance.archiver.enabled:
        return
    scenario.archive.calm = True
    await _wait(scenario, QUIET_LIMIT_S)
    if scenario.broker.config.data_maintenance.archiver.continuous:
        await _send_to_all(scenario)
        await _wait(scenario, ARCHIVER_INTERVAL_S + PASS_LIMIT_S)
    scenario.oracle.count("archive: had all")
    scenario.archive.calm = False


async def _wait(scenario: Scenario, limit_s: float) -> None:
    await scenario.wait(lambda: not any(_missing(scenario)) or scenario.broker.is_down, limit_s)
    if missing := list(_missing(scenario)):
        raise ViolationError(f"not archived in {limit_s} s: {missing}")


def _missing(scenario: Scenario) -> Iterator[object]:
    """What it lacks, for people."""
    objects = scenario.archive.objects
    for edge in scenario.broker.edges():
        state = edge.services.replica.state
        if _metadata(objects) != encode_snapshot(state):
            yield "metadata", state.op
        for packed, partition in edge.services.partitions.items():
            place = partition.place
            life = (*unpack(packed), place.incarnation, place.purges)
            if partition.fenced:
                continue
            yield from _missing_offsets(objects, life, partition)
            if scenario.archived.is_rotten(life):
                continue
            wanted, covered = _wanted(scenario, partition), scenario.archived.covered(life)
            if covered < wanted:
                yield life, covered, wanted


def _metadata(objects: Mapping[str, bytes]) -> bytes | None:
    """Those of the last owner that copied any."""
    keys = [key for key in objects if key.startswith(archive.METADATA_KEY)]
    last = max(keys, key=lambda key: int(key.partition("-")[2] or 0), default="")
    return objects.get(last)


def _missing_offsets(
    objects: Mapping[str, bytes], life: LifeKey, partition: Partition
) -> Iterator[object]:
    """Stored offsets that no copy of this life has as they are."""
    offsets = partition.offsets.all()
    if not offsets:
        return
    for key, data in objects.items():
        if "/offsets" in key:
            found = StoredOffsets.decode(data, key)
            whose = found.stream_id, found.topic_id, found.partition_id
            if (*whose, found.incarnation, found.purges) == life:
                there = {
                    ConsumerKey(ConsumerKind.CONSUMER, one): at
                    for one, at in found.consumers.items()
                }
                there |= {
                    ConsumerKey(ConsumerKind.GROUP, one): at for one, at in found.groups.items()
                }
                if there == offsets:
                    return
    yield life, offsets


def _wanted(scenario: Scenario, partition: Partition) -> int:
    """Up to which offset it is to have everything that ever was there."""
    log, settings = partition.log, scenario.broker.config.data_maintenance.archiver
    if settings.continuous:
        return log.next_offset
    if settings.archive_expired:
        return max(log.first_offset, partition.trimming.asked_offset)
    # Of what went without a copy nothing is wanted.
    return log.segments[-1].first_offset if log.segments and not log.first_offset else 0


async def _send_to_all(scenario: Scenario) -> None:
    """One message to each partition."""
    client, oracle = scenario.auditor.client, scenario.oracle
    await client.connect(0)
    for key in [key for key in oracle.partitions if key[0] == STREAM]:
        batch = [oracle.make(key, 100)]
        oracle.sending(key, batch)
        data = build(batch, origin_timestamp_us=1)
        where = Partitioning.partition(key[2])
        try:
            answer = await client.call(calls.send_batch(*key[:2], where, data))
        except ClientError:
            oracle.refused(key, batch)
        else:
            oracle.acknowledged(key, batch, answer.base_offset)
