"""Polls of messages that only the archive has: simulated disk, store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from cold_topic import ColdTopic
from iggy_broker.archive import blocks, fetching
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.errors import Reject
from iggy_broker.metadata import changes
from iggy_broker.storage.older import Asked, NotHere
from iggy_broker.storage.partition import ConsumerKey
from iggy_wire.archive import parse_key
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy
from iggy_wire.sealing import Keyring, id_of

T = TypeVar("T")
READER = ConsumerKey(1, 7)


@pytest.fixture(params=[1000, 100_000, 4 << 20], ids=lambda size: f"blocks of {size}")
def topic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ColdTopic:
    """Of which the last segment is in the log."""
    monkeypatch.setattr(blocks, "READ_BYTES", request.param)
    topic = ColdTopic(cache_bytes=8 << 20)
    topic.grow(60)
    topic.forget()
    assert topic.partition().log.first_offset > 100
    return topic


def test_all_is_read_in_order_whatever_the_start_and_the_size(topic: ColdTopic) -> None:
    for start in (0, 1, 2, 50, topic.partition().log.first_offset - 1):
        for count in (1, 7, 1000):
            assert topic.read_on(start, count) == topic.sent[start:]
    assert topic.read_on(0, bytes_max=1) == topic.sent


def test_times_find_what_was_taken_then_or_later(topic: ColdTopic) -> None:
    times = {message.timestamp_us for message in topic.sent}
    for at in sorted(times | {one + 1 for one in times} | {0}):
        wanted = [message for message in topic.sent if message.timestamp_us >= at][:3]
        assert topic.polled(PollingStrategy.timestamp(at), 3) == wanted


def test_first_next_and_last(topic: ColdTopic) -> None:
    assert topic.polled(PollingStrategy.first(), 3) == topic.sent[:3]
    count = len(topic.sent) - topic.partition().log.first_offset + 9
    last = topic.polled(PollingStrategy.last(), count, bytes_max=1 << 30)
    assert last == topic.sent[-count:], "also across the border"
    got: list[Message] = []
    while more := topic.polled(PollingStrategy.next(), 9, consumer=READER, auto_commit=True):
        got += more
        assert topic.partition().offsets.get(READER) == got[-1].offset
    assert got == topic.sent


def keys(topic: ColdTopic, kind: str) -> list[str]:
    """Of objects, by the first offsets of their segments."""
    named = {key: parse_key(key) for key in topic.store.objects}
    ours = [key for key, one in named.items() if one is not None and one.kind == kind]
    return sorted(ours, key=lambda key: (named[key].first_offset, named[key].position))  # type: ignore[union-attr]


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> ColdTopic:
    """The same with blocks of one size."""
    monkeypatch.setattr(blocks, "READ_BYTES", 100_000)
    topic = ColdTopic()
    topic.grow(60)
    topic.forget()
    return topic


def test_a_first_poll_asks_for_all_it_can_at_once_and_for_no_manifest_twice(
    cold: ColdTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = cold.store, fetching.Fetches.run
    read, manifests = store.read, []
    running: list[int] = [0]

    def noted_read(key: str, size_bytes: int, position: int) -> bytes:
        manifests.extend([key] if key.endswith(".json") and "/partitions/" in key else [])
        return read(key, size_bytes, position)

    async def slow_run(self: fetching.Fetches, work: Callable[[ArchiveStore], T]) -> T:
        running.append(running[-1] + 1)
        await asyncio.sleep(0)  # the others begin
        running.append(running[-1] - 1)
        return await run(self, work)

    monkeypatch.setattr(store, "read", noted_read)
    monkeypatch.setattr(fetching.Fetches, "run", slow_run)

    assert cold.polled(PollingStrategy.offset(0), 3) == cold.sent[:3]

    assert sorted(manifests) == sorted(keys(cold, "json"))
    assert max(running) >= 3, "owner, and both folders of the life"


def empty_log_at_the_end_of_the_archive(topic: ColdTopic) -> None:
    """As after a restore: a new segment, and all before it in the archive."""
    partition = topic.partition()
    folder, end = partition.place.folder, partition.next_offset
    topic.restart()
    topic.partition().close()
    disk = topic.disk
    for name in disk.list_folder(folder):
        if name.endswith((".log", ".index")) or name in ("clean", "synced"):
            disk.remove(f"{folder}/{name}")
    disk.open(f"{folder}/{end:020d}.log", create=True).close()
    disk.open(f"{folder}/{end:020d}.index", create=True).close()
    topic.restart()


def test_a_log_without_messages_begins_where_the_archive_ends(topic: ColdTopic) -> None:
    empty_log_at_the_end_of_the_archive(topic)
    count = len(topic.sent)
    log = topic.partition().log
    assert (log.first_offset, log.next_offset, log.size_bytes) == (count, count, 0)
    assert topic.read_on() == topic.sent
    assert topic.polled(PollingStrategy.last(), 4) == topic.sent[-4:]
    middle = topic.sent[-1].timestamp_us
    assert topic.polled(PollingStrategy.timestamp(middle))[-1] == topic.sent[-1]
    assert topic.polled(PollingStrategy.timestamp(middle + 1)) == []
    topic.grow(60)
    assert topic.read_on() == topic.sent, "and goes on"
    topic.forget()
    assert topic.read_on() == topic.sent, "also when that is archived, behind the old tail"


@pytest.mark.parametrize("what", ["json", "log"])
def test_what_the_archive_has_lost_is_left_out_and_told(
    cold: ColdTopic, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    second, third = (parse_key(key) for key in keys(cold, "json")[1:3])
    assert second is not None
    assert third is not None
    del cold.store.objects[keys(cold, what)[1]]
    there = [
        message
        for message in cold.sent
        if not second.first_offset <= message.offset < third.first_offset
    ]
    assert cold.read_on() == there
    is_told = any("is missing in the archive" in one.getMessage() for one in caplog.records)
    assert is_told == (what == "log")


def test_an_index_that_is_wrong_or_lost_is_done_without(cold: ColdTopic) -> None:
    indexes = keys(cold, "index")
    del cold.store.objects[indexes[0]]
    cold.store.objects[indexes[1]] = bytes(len(cold.store.objects[indexes[1]]))
    assert cold.read_on(3) == cold.sent[3:]


def test_damage_is_told_and_nothing_behind_it_given_until_it_is_mended(
    cold: ColdTopic, caplog: pytest.LogCaptureFixture
) -> None:
    key = keys(cold, "log")[1]
    good = cold.store.objects[key]
    wrong = bytearray(good)
    wrong[len(wrong) // 2] ^= 1
    cold.store.objects[key] = bytes(wrong)
    with pytest.raises(Reject) as refused:
        cold.read_on()
    assert refused.value.code is ErrorCode.CANNOT_READ_MESSAGE
    assert key.removesuffix(".log") in refused.value.detail
    assert [one for one in caplog.records if one.levelname == "ERROR"]
    assert cold.read_counters.shared is not None
    named = parse_key(key)
    assert named is not None
    first = named.first_offset
    got = cold.polled(PollingStrategy.offset(first))
    assert got == cold.sent[first : first + len(got)], "what is before it is given"
    assert 0 < len(got) < len(cold.sent) - first
    cold.store.objects[key] = good
    cold.clock.pass_s(61)
    assert cold.read_on() == cold.sent


def test_a_block_that_came_wrong_once_is_read_again(
    cold: ColdTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    lies, read = ["one"], cold.store.read

    def lie_once(key: str, size_bytes: int, position: int) -> bytes:
        data = read(key, size_bytes, position)
        if key.endswith(".log") and lies:
            lies.clear()
            return bytes([data[0] ^ 1]) + data[1:]
        return data

    monkeypatch.setattr(cold.store, "read", lie_once)
    assert cold.read_on() == cold.sent
    assert not lies


def test_so_is_a_manifest(cold: ColdTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    lies, read = keys(cold, "json"), cold.store.read

    def lying(key: str, size_bytes: int, position: int) -> bytes:
        data = read(key, size_bytes, position)
        if key not in lies:
            return data
        lies.remove(key)
        return data[: len(data) // 2]

    monkeypatch.setattr(cold.store, "read", lying)
    assert cold.read_on() == cold.sent
    assert not lies


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_segment_whose_manifest_is_wrong_is_not_passed_over(
    cold: ColdTopic, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    key = keys(cold, "json")[number]
    good = cold.store.objects[key]
    cold.store.objects[key] = good[: len(good) // 2]
    named = parse_key(key)
    assert named is not None
    first = named.first_offset
    for strategy in (PollingStrategy.offset(first), PollingStrategy.offset(first + 1)):
        with pytest.raises(
            Reject, match=f"{key} is no manifest; .* from offset {first} on"
        ) as told:
            cold.polled(strategy)
        assert told.value.code is ErrorCode.CANNOT_READ_MESSAGE
    told_of = [one for one in caplog.records if one.levelname == "ERROR"]
    assert len(told_of) == 1, "once a minute"
    if first:
        assert cold.polled(PollingStrategy.offset(first - 1)) == cold.sent[first - 1 : first]
        with pytest.raises(Reject):
            cold.read_on()

    cold.store.objects[key] = good
    cold.clock.pass_s(61)
    assert cold.read_on() == cold.sent


def test_an_archive_that_is_away_refuses_for_now_and_skips_nothing(cold: ColdTopic) -> None:
    for strategy in (
        PollingStrategy.first(),
        PollingStrategy.offset(5),
        PollingStrategy.timestamp(1),
        PollingStrategy.next(),
    ):
        cold.store.is_down = True
        with pytest.raises(Reject, match="is away") as refused:
            cold.polled(strategy, consumer=READER, auto_commit=True)
        assert refused.value.code is ErrorCode.TRANSIENT_NOT_ACCEPTED
        cold.store.is_down = False
        cold.clock.pass_s(1.1)
    assert cold.read_counters.archive_reads_failures_total == 4
    assert cold.partition().offsets.get(READER) is None
    got = cold.polled(PollingStrategy.next(), 5, consumer=READER, auto_commit=True)
    assert got == cold.sent[:5]
    cold.store.is_down = True
    last = cold.partition().log.first_offset
    assert cold.polled(PollingStrategy.offset(last), 5) == cold.sent[last : last + 5]
    assert cold.polled(PollingStrategy.offset(5), 1) == cold.sent[5:6], "and what is in memory"


def test_an_archive_that_is_not_mounted_is_away(cold: ColdTopic) -> None:
    objects = cold.store.objects
    cold.store.objects = {}
    with pytest.raises(Reject, match="is it mounted"):
        cold.read_on()
    cold.store.objects = objects
    cold.clock.pass_s(1.1)
    assert cold.read_on() == cold.sent


def test_what_was_emptied_is_not_given_again(cold: ColdTopic) -> None:
    assert cold.read_on()
    cold.change(changes.PurgeTopic("s", "t"))
    cold.partition().purge(1)
    cold.sent.clear()
    assert cold.read_on() == []
    cold.grow(60)
    cold.forget()
    assert cold.partition().log.first_offset > 100
    assert cold.read_on() == cold.sent
    assert {key.split("/")[3] for key in cold.store.objects} == {"0", "0.2-1"}


def test_what_is_encrypted_is_given_to_who_has_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "READ_BYTES", 100_000)
    key, other = bytes(32), bytes(range(32))
    topic = ColdTopic(keys=Keyring(key=key))
    topic.grow(60)
    topic.forget()
    assert topic.read_on() == topic.sent
    topic.keys = Keyring([key], key=other)
    topic.restart()
    assert topic.read_on() == topic.sent
    topic.keys = Keyring(key=other)
    topic.restart()
    with pytest.raises(Reject, match=id_of(key)) as refused:
        topic.polled(PollingStrategy.first())
    assert refused.value.code is ErrorCode.CANNOT_DECRYPT_DATA


def test_too_many_reads_are_put_off(cold: ColdTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCHES_MAX", 1)
    older, place = cold.parts.older, cold.partition().place
    assert older is not None

    async def ask() -> None:
        asked = Asked(place, end=100, count=1, bytes_max=1)
        with pytest.raises(NotHere) as first:
            older.read(asked, 0)
        with pytest.raises(NotHere):
            older.read(asked, 5)
        another = replace(asked, place=replace(place, incarnation=99))
        with pytest.raises(Reject, match="ask again") as refused:
            older.read(another, 0)
        assert not isinstance(refused.value, NotHere)
        assert refused.value.code is ErrorCode.TRANSIENT_NOT_ACCEPTED
        await first.value.ready

    asyncio.run(ask())
    assert cold.read_counters.archive_reads_refused_total == 1


def test_many_who_want_the_same_make_one_read(
    cold: ColdTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = [], cold.store.read

    def count(key: str, size_bytes: int, position: int) -> bytes:
        if key.endswith(".log"):
            reads.append((key, position))
        return read(key, size_bytes, position)

    async def poll() -> Message | None:
        while True:
            try:
                cold.partition().poll(PollingStrategy.first(), 1, bytes_max=1)
                return None
            except NotHere as missing:
                await asyncio.wait((missing.ready,))

    async def crowd() -> None:
        await asyncio.gather(*[poll() for _ in range(30)])

    monkeypatch.setattr(cold.store, "read", count)
    asyncio.run(crowd())
    assert len(reads) == len(set(reads))
    assert len([one for one in reads if one[1] == 0]) == 1
