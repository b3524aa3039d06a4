"""What is copied when, what goes only then, and what is left after a crash at any step."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from archived_topic import CONTINUOUS, ArchivedTopic
from cleaned_topic import READER, SEGMENT_BYTES
from iggy_broker.archive.patience import AGAIN_S_MAX
from iggy_broker.archive.plan import PIECES_KEPT_MAX
from iggy_broker.metadata import changes
from iggy_wire.options import make_options
from simulated_disk import Crashed

MINUTE_US = 60_000_000
HOUR_S = 3600.0
FOREVER = (1 << 64) - 1
NOT_WAITING = {"IGGY_DATA_MAINTENANCE_ARCHIVER_ARCHIVE_EXPIRED": "false"}


def covered(topic: ArchivedTopic) -> int:
    """Up to which offset everything from 0 on is on the disk or in the archive."""
    reached = 0
    for first, end in sorted([*topic.whole(), *topic.held()]):
        assert first <= reached, f"offsets {reached} to {first} are nowhere"
        reached = max(reached, end)
    return reached


def test_a_segment_is_copied_when_it_is_due_and_goes_then() -> None:
    topic = ArchivedTopic(message_expiry=10 * MINUTE_US)
    topic.fill(segments=2)
    topic.clock.pass_s(5 * 60)
    topic.fill(segments=1.5)
    topic.sync()
    topic.archive()
    assert topic.store.objects == {}

    topic.clock.pass_s(6 * 60)
    (again_s,) = topic.clean()
    assert topic.held() == [(0, 14)], "nothing is copied yet"
    assert again_s is not None
    topic.archive()
    assert topic.kinds() == ["index", "json", "log"] * 2
    topic.clean()
    assert topic.held() == [(8, 14)]
    assert topic.whole() == [(0, 4), (4, 8)]


def test_a_topic_that_is_too_large_loses_what_is_copied() -> None:
    topic = ArchivedTopic(partitions=2, max_topic_size=4 * SEGMENT_BYTES)
    topic.fill(0, segments=5, spread_s=1)
    topic.fill(1, segments=3.5, spread_s=1)
    topic.sync()
    for _ in range(20):
        topic.clean()
        topic.archive()
    assert topic.size_bytes <= 4 * SEGMENT_BYTES
    assert topic.held() == [(16, 20), (8, 14)], "each keeps its newest"
    assert len(topic.whole()) >= 6


def test_a_request_to_delete_waits_for_the_copy() -> None:
    topic = ArchivedTopic()
    topic.fill(segments=2.5)
    topic.sync()
    topic.partition().delete_oldest_segments(2)
    topic.host.look_after()
    assert topic.held() == [(0, 10)]
    topic.archive()
    topic.host.look_after()
    assert topic.held() == [(8, 10)]
    assert topic.whole() == [(0, 4), (4, 8)]


def test_sealed_segments_that_wait_count_as_behind() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.fill(segments=2.5)
    topic.sync()
    for _ in range(2):
        topic.clock.pass_s(5)
        asyncio.run(topic.archiver.tails_pass())
    assert topic.counters_of.archiver_behind_seconds == 10_000_000
    topic.archive()
    for _ in range(2):
        asyncio.run(topic.archiver.tails_pass())
    assert topic.counters_of.archiver_behind_seconds == 0


def test_without_the_rule_sealed_segments_are_copied_and_nothing_waits() -> None:
    topic = ArchivedTopic(message_expiry=MINUTE_US, settings=NOT_WAITING)
    topic.fill(segments=2.5)
    topic.sync()
    topic.archive()
    assert topic.whole() == [(0, 4), (4, 8)]
    topic.fill(segments=1)
    topic.clock.pass_s(HOUR_S)
    topic.clean_all()
    assert topic.held() == [(12, 14)]


def test_continuous_copies_sealed_segments_and_the_tail() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.fill(segments=2.5)
    topic.archive()
    assert topic.whole() == [(0, 4), (4, 8), (8, 10)]
    before = dict(topic.store.objects)
    topic.archive()
    assert topic.store.objects == before, "nothing new, nothing copied"
    topic.fill(segments=0.25)
    topic.archive()
    assert topic.whole()[-1] == (8, 11)
    topic.fill(segments=0.25)
    topic.archive()
    assert topic.kinds() == ["index", "json", "log"] * 3, "the pieces of a sealed one are gone"


def test_pieces_stay_few_and_no_byte_is_copied_often() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    for _ in range(400):
        topic.send(2000)
        topic.archive()
        (manifest,) = topic.manifests()
        assert len(manifest.pieces) <= PIECES_KEPT_MAX
    assert topic.whole() == [(0, 400)]
    assert topic.kinds().count("part") == len(manifest.pieces)
    pieces_bytes = topic.store.stored_bytes - 400 * 2000  # and as many manifests, which are small
    assert pieces_bytes < 8 * manifest.size_bytes


def test_only_what_is_on_the_disk_for_good_is_copied() -> None:
    topic = ArchivedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=1.5)
    topic.clock.pass_s(HOUR_S)
    topic.clean()
    topic.archive()
    assert topic.store.objects == {}
    topic.sync()
    topic.archive()
    assert topic.whole() == [(0, 4)]


@pytest.mark.parametrize("settings", [{}, CONTINUOUS], ids=["when due", "continuous"])
def test_an_empty_log_makes_no_objects(settings: dict[str, str]) -> None:
    topic = ArchivedTopic(message_expiry=MINUTE_US, settings=settings)
    topic.archive()
    topic.fill(segments=1)
    topic.sync()
    topic.clock.pass_s(HOUR_S)
    topic.clean()
    topic.archive()
    topic.clean_all()
    topic.archive()
    topic.archive()
    assert topic.held() == [(4, 4)], "its active segment is empty"
    assert topic.whole() == [(0, 4)]
    assert topic.counters_of.archiver_failures_total == 0


def scenario(topic: ArchivedTopic) -> None:
    """Messages come, become old, are copied and removed; a tail grows."""
    topic.fill(segments=1.25)
    topic.sync()
    topic.archive()
    topic.clock.pass_s(HOUR_S)
    for _ in range(2):
        topic.send(100_000)
        topic.clean()
        topic.archive()
    topic.fill(segments=0.75)
    topic.sync()
    topic.archive()
    topic.clean()


@pytest.mark.parametrize("settings", [{}, CONTINUOUS], ids=["when due", "continuous"])
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_step_loses_nothing(settings: dict[str, str], *, power_cut: bool) -> None:
    step, over = 0, False
    while not over:
        topic = ArchivedTopic(message_expiry=10 * MINUTE_US, settings=settings)
        topic.store.crash_at = step
        try:
            scenario(topic)
            over = True
        except Crashed:
            pass
        synced = topic.partition().log.synced_next_offset
        topic.restart(power_cut=power_cut)
        assert covered(topic) >= synced, step
        topic.fill(segments=1.5)
        topic.sync()
        for _ in range(4):
            topic.clock.pass_s(HOUR_S)
            topic.clean()
            topic.archive()
        assert covered(topic) == topic.partition().next_offset, step
        assert topic.held()[0][0] > 0, "what is copied goes"
        ends = topic.whole()
        assert all(end == first for (_, end), (first, _) in pairwise(ends)), (step, ends)
        step += 1
    assert step > 10


@pytest.mark.parametrize("ending", [".log", ".index", ".json", ".part"])
def test_wrong_bytes_on_the_way_back_are_noticed(ending: str) -> None:
    topic = ArchivedTopic(message_expiry=MINUTE_US, settings=CONTINUOUS)
    topic.store.flips = ending
    topic.fill(segments=1.5)
    topic.clock.pass_s(HOUR_S)
    for _ in range(10):
        topic.clock.pass_s(AGAIN_S_MAX)
        topic.archive()
        topic.clean()
    if ending != ".part":
        assert topic.held() == [(0, 6)]
    assert topic.counters_of.archiver_failures_total > 0
    assert topic.counters_of.archiver_failing == 1

    topic.store.flips = ""
    topic.clock.pass_s(2 * AGAIN_S_MAX)
    topic.archive()
    topic.clean()
    assert topic.held() == [(4, 6)]
    assert topic.whole() == [(0, 4), (4, 6)]
    assert topic.counters_of.archiver_failing == 0


def test_a_store_that_is_away_for_hours_costs_nothing_but_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    topic = ArchivedTopic(message_expiry=MINUTE_US, settings=CONTINUOUS)
    topic.store.is_down = True
    for _ in range(600):
        topic.send(30_000)
        topic.clock.pass_s(10)
        topic.archive()
        topic.clean()
    assert topic.held() == [(0, 600)]
    assert topic.counters_of.archiver_pending_segments == len(topic.partition().log.segments) - 1
    assert topic.counters_of.archiver_behind_seconds >= 5990 * 1_000_000
    assert topic.store.steps < 250, "tried less and less often"
    told = [record for record in caplog.records if "not archived" in record.message]
    assert 50 < len(told) <= 101, "once a minute"

    topic.store.is_down = False
    for _ in range(3):
        topic.clock.pass_s(2 * AGAIN_S_MAX)
        topic.archive()
        topic.clean_all()
    assert covered(topic) == 600
    assert topic.held()[0][0] > 500
    assert topic.counters_of.archiver_behind_seconds == 0
    assert topic.counters_of.archiver_pending_segments == 0


def test_a_segment_that_vanished_is_left_out_and_the_queue_moves_on() -> None:
    topic = ArchivedTopic(settings=NOT_WAITING)
    topic.fill(segments=3.5)
    topic.sync()
    topic.disk.remove(f"{topic.partition().place.folder}/{4:020d}.log")
    for _ in range(5):
        topic.archive()
    assert topic.whole() == [(0, 4), (8, 12)]
    assert topic.counters_of.archiver_vanished_total == 1
    assert topic.counters_of.archiver_failures_total == 0


@pytest.mark.parametrize("ending", [".log", ".index", ".json"])
def test_a_segment_that_retention_takes_during_its_upload_holds_nothing_up(ending: str) -> None:
    topic = ArchivedTopic(settings=NOT_WAITING)
    topic.fill(segments=3.5)
    topic.sync()
    taken: list[str] = []

    def take(key: str) -> None:
        if key.endswith(f"{4:020d}{ending}") and not taken:
            taken.append(key)
            topic.partition().delete_oldest_segments(2)

    topic.store.before_put = take
    for _ in range(5):
        topic.archive()
    assert taken
    assert topic.held() == [(8, 14)]
    found = topic.whole()
    assert found in ([(0, 4), (4, 8), (8, 12)], [(0, 4), (8, 12)]), "a copy is whole, or is none"
    assert topic.counters_of.archiver_vanished_total == 3 - len(found)
    assert topic.counters_of.archiver_failures_total == 0
    assert topic.counters_of.archiver_pending_segments == 0


def test_one_partition_that_fails_does_not_hold_up_the_others() -> None:
    topic = ArchivedTopic(partitions=3, settings=NOT_WAITING)
    for number in range(3):
        topic.fill(number, segments=1.5)
    topic.sync()
    topic.store.flips = "partitions/1/00000000000000000000.log"
    topic.archive()
    assert [manifest.partition_id for manifest in topic.manifests()] == [0, 2]


def test_a_restart_copies_nothing_again() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.fill(segments=2.5)
    topic.archive()
    before, stored = dict(topic.store.objects), topic.store.stored_bytes
    topic.restart()
    topic.archive()
    assert topic.store.objects == before
    topic.send(100)
    topic.archive()
    assert topic.whole()[-1] == (8, 11)
    assert topic.store.stored_bytes - stored < 4000, "only what is new"


def test_a_tail_that_the_log_does_not_have_any_more_is_made_anew() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.send(1000)
    topic.archive()
    path = f"{topic.partition().place.folder}/{0:020d}.log"
    node = topic.disk.open(path)
    node.truncate(0)
    topic.restart()
    topic.send(500)
    topic.archive()
    assert topic.whole() == [topic.held()[0]]


def test_what_is_made_anew_or_emptied_gets_a_folder_of_its_own() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.fill(segments=1.5)
    topic.archive()
    first = topic.state.streams[0].topics[0].partitions[0].incarnation

    topic.partition().purge(1)
    purged = topic.state.streams[0].topics[0]
    topic.fill(segments=0.25)
    topic.archive()
    folders = {key.partition("/partitions")[0] for key in topic.store.objects}
    assert folders == {"streams/0/topics/0", f"streams/0/topics/0.{first}-1"}

    topic.change(changes.DeleteTopic("s", purged.name))
    topic.change(changes.CreateTopic("s", "t", 1, make_options({"segment_size": SEGMENT_BYTES})))
    topic.restart()
    second = topic.state.streams[0].topics[0].partitions[0].incarnation
    topic.fill(segments=0.5)
    topic.archive()
    folders = {key.partition("/partitions")[0] for key in topic.store.objects}
    assert f"streams/0/topics/0.{second}" in folders
    assert sorted(topic.whole()) == [(0, 1), (0, 2), (0, 4), (4, 6)]
    topic.restart()
    topic.archive()
    assert len(topic.whole()) == 4, "found again"


@pytest.mark.parametrize("name", ["../../../x", "..", ".", "a/b", "a\\b", "x\0y", "漢" * 85, "foo"])
def test_a_name_is_in_the_manifest_and_never_in_a_key(name: str) -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    plain = set(topic.store.objects)
    topic.change(changes.UpdateStream("s", name))
    topic.change(changes.UpdateTopic(name, "t", name, make_options({})))
    topic.fill(segments=1.5)
    topic.archive()

    assert {(one.stream, one.topic) for one in topic.manifests()} == {(name, name)}
    keys = topic.store.objects.keys() - plain
    assert {key.partition("/partitions/")[0] for key in keys} == {"streams/0/topics/0"}


def test_what_no_reader_has_passed_is_copied_and_stays() -> None:
    topic = ArchivedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=2.5)
    topic.sync()
    topic.partition().store_offset(READER, 5)
    topic.clock.pass_s(HOUR_S)
    topic.clean()
    topic.archive()
    topic.clean_all()
    assert topic.held() == [(4, 10)]
    assert topic.whole() == [(0, 4)]
