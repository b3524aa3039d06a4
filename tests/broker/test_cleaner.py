"""What goes by age and by size, what stays, and when."""

from __future__ import annotations

import pytest

from cleaned_topic import READER, SEGMENT_BYTES, CleanedTopic
from iggy_broker.metadata import changes
from iggy_broker.storage.retention import BELIEVED_AFTER_US, REMOVED_PER_PASS_MAX

MINUTE_US = 60_000_000
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
FOREVER = (1 << 64) - 1
UNREAD_ALLOWED = {"IGGY_DATA_MAINTENANCE_MESSAGES_CONSUMER_BARRIER": "false"}


def test_sealed_segments_go_when_their_newest_message_is_old() -> None:
    topic = CleanedTopic(message_expiry=10 * MINUTE_US)
    topic.fill(segments=3, spread_s=30)  # the newest of a segment comes 1.5 minutes after the first
    assert topic.held() == [(0, 12)]
    topic.clock.pass_s(5.4 * 60)  # 11.4 since the first message, 9.9 since the last of its segment
    topic.clean()
    assert topic.held() == [(0, 12)]

    topic.clock.pass_s(0.1 * 60)
    topic.clean()
    assert topic.held() == [(4, 12)]

    topic.clock.pass_s(DAY_S)
    topic.clean_all()
    assert topic.held() == [(12, 12)]
    assert topic.partition().append is not None
    topic.fill(segments=0.25)
    assert topic.held() == [(12, 13)]


def test_the_active_segment_stays_however_old_it_is() -> None:
    topic = CleanedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=1.5)
    topic.clock.pass_s(1000 * DAY_S)
    topic.clean_all()
    assert topic.held() == [(4, 6)]


def test_an_old_active_segment_is_sealed_where_that_is_wanted_and_goes_then() -> None:
    topic = CleanedTopic(
        message_expiry=10 * MINUTE_US, settings={"IGGY_SYSTEM_SEGMENT_MAX_AGE": "1 h"}
    )
    topic.fill(segments=0.5)
    topic.clock.pass_s(HOUR_S - 1)
    topic.clean_all()
    assert topic.held() == [(0, 2)]
    topic.clock.pass_s(2)
    topic.clean_all()
    assert topic.held() == [(2, 2)]
    topic.fill(segments=0.25)
    assert topic.held() == [(2, 3)]


@pytest.mark.parametrize("settings", [{}, {"IGGY_SYSTEM_SEGMENT_MAX_AGE": "1 s"}])
def test_without_expiry_nothing_goes(settings: dict[str, str]) -> None:
    topic = CleanedTopic(settings=settings)
    topic.fill(segments=2.5)
    topic.clock.pass_s(100 * 365 * DAY_S)
    topic.clean_all()
    assert topic.held() == [(0, 10)]


def test_another_expiry_counts_from_the_next_pass() -> None:
    topic = CleanedTopic(message_expiry=10 * MINUTE_US)
    topic.fill(segments=2.5)
    topic.update(message_expiry=FOREVER)
    topic.clock.pass_s(DAY_S)
    topic.clean_all()
    assert topic.held() == [(0, 10)]
    topic.update(message_expiry=60 * MINUTE_US)
    topic.clean_all()
    assert topic.held() == [(8, 10)]


def test_one_pass_removes_so_many_segments_and_asks_for_the_next() -> None:
    topic = CleanedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=REMOVED_PER_PASS_MAX + 3)
    topic.clock.pass_s(HOUR_S)
    (again_s,) = topic.clean()
    assert again_s is not None
    assert topic.held() == [(4 * REMOVED_PER_PASS_MAX, 4 * (REMOVED_PER_PASS_MAX + 3))]
    assert topic.clean() == [None]
    assert topic.held() == [(76, 76)]


def test_what_a_known_consumer_has_not_read_stays_and_somebody_is_told() -> None:
    topic = CleanedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=3.5)
    topic.partition().store_offset(READER, 6)
    topic.clock.pass_s(DAY_S)
    topic.clean_all()
    topic.clean_all()
    assert topic.held() == [(4, 14)]
    assert len(topic.warnings) == 1
    assert "a consumer has not read them" in topic.warnings[0]
    topic.partition().store_offset(READER, 13)
    topic.clean_all()
    assert topic.held() == [(12, 14)]


def test_the_barrier_can_be_taken_away() -> None:
    topic = CleanedTopic(message_expiry=MINUTE_US, settings=UNREAD_ALLOWED)
    topic.fill(segments=3.5)
    topic.partition().store_offset(READER, 1)
    topic.clock.pass_s(DAY_S)
    topic.clean_all()
    assert topic.held() == [(12, 14)]
    assert topic.warnings == []


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_topic_that_is_too_large_loses_its_oldest_segments_of_all_partitions(shards: int) -> None:
    topic = CleanedTopic(partitions=4, shards=shards, max_topic_size=16 * SEGMENT_BYTES)
    topic.fill(0, segments=40, spread_s=1)
    topic.clean_all()
    assert topic.size_bytes <= 16 * SEGMENT_BYTES
    assert topic.held()[0] == (160 - 13 * 4, 160), "13 segments of 1.2 MB are below 16 MiB"

    for _ in range(10):
        for number in range(4):
            topic.fill(number, segments=1, spread_s=1)
    topic.clean_all()
    assert topic.size_bytes <= 16 * SEGMENT_BYTES
    held = [(end - first) // 4 for first, end in topic.held()]
    assert held == [3, 3, 3, 4], "the newest of all, wherever they are"


def test_two_passes_are_enough_for_any_backlog_of_one_pass() -> None:
    topic = CleanedTopic(partitions=4, max_topic_size=8 * SEGMENT_BYTES)
    for number in range(4):
        topic.fill(number, segments=REMOVED_PER_PASS_MAX)
    topic.clean()
    topic.clean()
    assert topic.size_bytes <= 8 * SEGMENT_BYTES


def test_a_limit_of_one_segment_leaves_every_partition_its_newest_data() -> None:
    topic = CleanedTopic(partitions=2, max_topic_size=SEGMENT_BYTES)
    topic.fill(0, segments=3)
    topic.fill(1, segments=2.5)
    topic.clean_all()
    assert topic.held() == [(8, 12), (8, 10)]


def test_no_limit_and_a_limit_that_is_not_kept_remove_nothing() -> None:
    endless = CleanedTopic(max_topic_size=FOREVER)
    kept = CleanedTopic(
        max_topic_size=SEGMENT_BYTES,
        settings={"IGGY_SYSTEM_TOPIC_DELETE_OLDEST_SEGMENTS": "false"},
    )
    for topic in (endless, kept):
        topic.fill(segments=5)
        topic.clean_all()
        assert topic.held() == [(0, 20)]


def test_a_limit_does_not_pass_a_stored_offset_either() -> None:
    topic = CleanedTopic(partitions=2, max_topic_size=2 * SEGMENT_BYTES)
    topic.fill(0, segments=5)
    topic.partition(0).store_offset(READER, 4)
    topic.fill(1, segments=5)
    topic.clean_all()
    assert topic.held() == [(4, 20), (16, 20)]
    assert len(topic.warnings) == 1


def test_node_defaults_hold_for_topics_without_options() -> None:
    topic = CleanedTopic(settings={"IGGY_SYSTEM_SEGMENT_MESSAGE_EXPIRY": "10 m"})
    topic.change(changes.CreateStream("other"))
    topic.fill(segments=2)
    topic.clock.pass_s(HOUR_S)
    topic.clean_all()
    assert topic.held() == [(8, 8)]


def test_a_purge_and_a_deleted_topic_in_between_are_no_trouble() -> None:
    topic = CleanedTopic(message_expiry=MINUTE_US)
    topic.fill(segments=2)
    topic.clock.set_by_us = -(10**12)  # what follows seems to come from the future
    topic.clean_all()
    topic.partition().purge(1)
    topic.fill(segments=2)
    topic.clean_all()
    assert topic.held() == [(0, 8)]
    topic.clock.pass_s(HOUR_S)
    topic.clean_all()
    assert topic.held() == [(8, 8)]
    topic.change(changes.DeleteTopic("s", "t"))
    topic.clean_all()


def test_a_clock_that_jumps_ahead_for_a_while_makes_nothing_old() -> None:
    topic = CleanedTopic(message_expiry=60 * MINUTE_US)
    topic.fill(segments=3)
    topic.clean()
    topic.clock.set_by_us = int(10 * 365 * DAY_S * 1_000_000)
    for _ in range(30):
        topic.clock.pass_s(60)
        topic.clean()
    assert topic.held() == [(0, 12)]
    topic.clock.set_by_us = 0
    topic.clock.pass_s(31 * 60)
    topic.clean()
    assert topic.held() == [(12, 12)]


def test_a_clock_that_stays_ahead_is_believed() -> None:
    topic = CleanedTopic(message_expiry=60 * MINUTE_US)
    topic.fill(segments=3)
    topic.clock.set_by_us = int(10 * DAY_S * 1_000_000)
    topic.clean()
    topic.clock.pass_s(BELIEVED_AFTER_US / 1_000_000)
    topic.clean()
    assert topic.held() == [(12, 12)]


def test_a_start_with_a_clock_that_is_ahead_makes_nothing_old() -> None:
    topic = CleanedTopic(message_expiry=60 * MINUTE_US)
    topic.fill(segments=3)
    topic.clock.set_by_us = int(70 * 365 * DAY_S * 1_000_000)
    topic.begin()
    for _ in range(30):
        topic.clock.pass_s(60)
        topic.clean()
    assert topic.held() == [(0, 12)]
    topic.clock.set_by_us = 0  # the network is there, and with it the time
    topic.clean()
    topic.clock.pass_s(31 * 60)
    topic.clean()
    assert topic.held() == [(12, 12)]


def test_a_start_after_a_long_time_believes_its_clock_in_the_end() -> None:
    topic = CleanedTopic(message_expiry=int(DAY_S * 1_000_000))
    topic.fill(segments=3)
    topic.clock.pass_s(10 * DAY_S)
    topic.begin()
    topic.clean()
    assert topic.held() == [(0, 12)]
    topic.clock.pass_s(BELIEVED_AFTER_US / 1_000_000)
    topic.clean()
    assert topic.held() == [(12, 12)]


def test_messages_of_a_clock_that_was_ahead_count_from_when_they_were_seen() -> None:
    topic = CleanedTopic(message_expiry=60 * MINUTE_US)
    topic.clock.set_by_us = int(10 * 365 * DAY_S * 1_000_000)
    topic.fill(segments=1)
    topic.clock.set_by_us = 0
    topic.fill(segments=1)  # stamped in the future, too: times in a partition never go back
    topic.clean()
    topic.clock.pass_s(59 * 60)
    topic.clean()
    assert topic.held() == [(0, 8)]
    topic.clock.pass_s(60)
    topic.clean()
    assert topic.held() == [(8, 8)]
