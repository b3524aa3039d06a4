"""How what is in an archive is found, with few questions."""

from __future__ import annotations

import pytest

from archived_topic import CONTINUOUS, ArchivedTopic, MemoryStore
from cleaned_topic import READER
from iggy_broker.archive.store import ArchiveError
from iggy_broker.restore import survey as surveying
from iggy_broker.restore.survey import ends, read_metadata, survey
from iggy_wire.archive import log_key, manifest_key, offsets_key, parse_key

FOLDER = "streams/0/topics/0/partitions/0"


def with_segments(firsts: range) -> MemoryStore:
    store = MemoryStore()
    for first in firsts:
        store.objects |= {log_key(FOLDER, first): b"1", manifest_key(FOLDER, first): b"1"}
    store.objects[offsets_key(FOLDER)] = b"1"
    return store


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 50, 333, 334, 1000])
@pytest.mark.parametrize("step", [1, 7, 10**9])
def test_the_ends_of_a_folder_are_found(
    monkeypatch: pytest.MonkeyPatch, count: int, step: int
) -> None:
    monkeypatch.setattr(surveying, "PAGE", 10)
    store = with_segments(range(5, 5 + count * step, step))
    first, last = ends(store, FOLDER)
    newest = 5 + (count - 1) * step
    assert first[0].key == manifest_key(FOLDER, 5)
    keys = [entry.key for entry in last]
    assert log_key(FOLDER, newest) in keys
    assert manifest_key(FOLDER, newest) in keys
    assert parse_key(keys[0]).first_offset >= 5  # type: ignore[union-attr]
    assert store.steps < 130


def archived() -> ArchivedTopic:
    topic = ArchivedTopic(settings=CONTINUOUS, partitions=2)
    topic.fill(segments=2.5)
    topic.sync()
    topic.partition().store_offset(READER, 3)
    topic.archive()
    return topic


@pytest.mark.parametrize("is_all", [False, True])
def test_what_there_is_of_a_partition(is_all: bool) -> None:
    topic = archived()
    (held,) = survey(topic.store, is_all=is_all)
    assert (held.first_offset, held.next_offset) == (0, 10)
    assert (held.stream, held.topic) == ("s", "t")
    assert held.life.incarnation == topic.partition().place.incarnation
    assert held.last_timestamp_us == topic.partition().log.last_timestamp_us
    assert [one.first_offset for one in held.listing.segments] == [0, 4, 8]
    assert held.problems == ()
    assert read_metadata(topic.store) is None


def test_a_hole_is_found_when_all_is_looked_at() -> None:
    topic = archived()
    topic.store.objects.pop(log_key(FOLDER, 4))
    (held,) = survey(topic.store, is_all=True)
    assert [tuple(gap) for gap in held.listing.gaps] == [(4, 8)]
    assert held.problems == (f"{log_key(FOLDER, 4)}: is missing, or too short",)


def test_no_offset_is_given_twice_whatever_is_missing() -> None:
    topic = archived()
    parts = [key for key in topic.store.objects if key.endswith(".part")]
    for key in parts:
        topic.store.objects.pop(key)
    (held,) = survey(topic.store, is_all=False)
    assert held.next_offset == 10
    topic.store.objects[manifest_key(FOLDER, 8)] = b"{}"
    (held,) = survey(topic.store, is_all=False)
    assert held.next_offset == 8
    assert len(held.problems) == 1
    for first in (0, 4):
        topic.store.objects[manifest_key(FOLDER, first)] = b"{}"
    with pytest.raises(ArchiveError, match="no manifest there can be read"):
        survey(topic.store, is_all=False)
