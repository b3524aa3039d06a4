"""One task's read against replies that a healthy broker would not give."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from iggy_spark import fetch, options
from iggy_spark.errors import BrokerUnavailable, CorruptReply, DataLoss, TopicRecreated
from iggy_spark.fetch import RangeFetch
from iggy_spark.offsets import Incarnation, Kept, OffsetRange, TopicState
from iggy_wire import kernel
from iggy_wire.batch import Message, build
from iggy_wire.primitives import PollingStrategy
from iggy_wire.replies import Polled

INCARNATION = Incarnation(1, 100)


def region(first: int, count: int) -> bytes:
    """One stored batch of `count` messages from offset `first` on."""
    batch = build([Message(b"m%d" % n) for n in range(count)], origin_timestamp_us=5)
    assert kernel.admit(batch, 3, first, 1_000_000) == 0
    return bytes(batch)


@dataclass
class Log:
    """A partition as `Connection` shows it: offsets from `first` to `end`, in batches of ten."""

    first: int = 0
    end: int = 100
    incarnations: list[Incarnation] = field(default_factory=lambda: [INCARNATION])
    change: Callable[[bytes], bytes] = lambda data: data
    kept_back: range = range(0)
    asked: list[int] = field(default_factory=list)  # ahead

    def topic_state(self) -> TopicState:
        now = self.incarnations.pop(0) if len(self.incarnations) > 1 else self.incarnations[0]
        kept = Kept(self.end - self.first, 1)
        return TopicState("s/t", now, {3: self.end}, {3: kept})

    def poll(self, partition: int, strategy: PollingStrategy, *, count: int) -> Polled:
        assert partition == 3
        at = max(strategy.value, self.first)
        count = 0 if at in self.kept_back else min(count, self.end - at)
        if count <= 0:
            return Polled(3, max(0, self.end - 1), 0, b"")
        start = at - at % 10
        whole = region(start, 10)
        chosen = kernel.select(whole, at, count)
        data = chosen.head + whole[chosen.start : chosen.end] + chosen.tail
        return Polled(3, self.end - 1, chosen.count, self.change(data))

    def ask_poll(
        self, partition: int, strategy: PollingStrategy, *, count: int
    ) -> Callable[[], Polled]:
        self.asked.append(strategy.value)
        return lambda: self.poll(partition, strategy, count=count)


def read(
    monkeypatch: pytest.MonkeyPatch, log: Log, first: int, end: int, **more: str
) -> tuple[list[int], int]:
    """Offsets that came, and how many are counted as lost."""
    monkeypatch.setattr(fetch, "Connection", lambda given: log)
    monkeypatch.setattr(fetch, "TAIL_GRACE_S", 0.05)
    given = {"servers": "a:1", "username": "u", "password": "p", "stream": "s", "topic": "t"}
    parsed = options.parse({**given, "retryTimeoutMs": "200", **more}, mode="batch")
    source = RangeFetch(parsed, OffsetRange(str(INCARNATION), 3, first, end))
    found: list[int] = []
    for columns in source:
        data = memoryview(columns.offsets).cast("q")
        found += list(data)
    return found, source.lost


def test_exactly_the_range_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Log(), 7, 93) == (list(range(7, 93)), 0)


def test_who_is_slow_is_not_read_ahead_for(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = Log(), Log()
    read(monkeypatch, quick, 0, 100)
    monkeypatch.setattr(fetch, "SLOW_S", 0)

    assert read(monkeypatch, slow, 0, 100) == (list(range(100)), 0)
    assert (quick.asked, slow.asked) == (list(range(0, 100, 10)), [0])


def test_a_poll_asks_for_no_more_messages_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()

    assert read(monkeypatch, log, 0, 100, fetchMessages="7") == (list(range(100)), 0)
    # A batch of the log has ten.
    assert log.asked[:5] == [0, 7, 10, 17, 20]


def test_a_gap_at_the_start_is_named_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = r"s/t partition 3: offsets 10\u201349 \(40 messages\) are gone, the earliest is 50"
    with pytest.raises(DataLoss, match=told):
        read(monkeypatch, Log(first=50), 10, 60)

    assert read(monkeypatch, Log(first=50), 10, 60, failOnDataLoss="false") == (
        list(range(50, 60)), 40,
    )  # fmt: skip


def test_a_range_that_is_gone_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataLoss, match=r"offsets 10\u201319 \(10 messages\)"):
        read(monkeypatch, Log(first=50), 10, 20)

    assert read(monkeypatch, Log(first=50), 10, 20, failOnDataLoss="false") == ([], 10)


def test_a_partition_that_is_empty_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataLoss, match=r"offsets 10\u201399 \(90 messages\) are gone"):
        read(monkeypatch, Log(first=100), 10, 100)

    assert read(monkeypatch, Log(first=100), 10, 100, failOnDataLoss="false") == ([], 90)


def test_a_partition_that_ends_below_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataLoss, match=r"offsets 80\u201399 \(20 messages\) are gone"):
        read(monkeypatch, Log(end=80), 70, 100)

    assert read(monkeypatch, Log(end=80), 70, 100, failOnDataLoss="false") == (
        list(range(70, 80)), 20,
    )  # fmt: skip


def test_an_end_that_is_never_shown_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.poll = lambda *args, **kwargs: Polled(3, 99, 0, b"")  # type: ignore[method-assign]

    with pytest.raises(
        BrokerUnavailable, match="offset 99 was planned, but nothing comes after 69"
    ):
        read(monkeypatch, log, 70, 100, failOnDataLoss="false")


@pytest.mark.parametrize("at", [0, 300])
def test_changed_bytes_are_noticed(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    def change(data: bytes) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at else data[:-1]

    with pytest.raises(CorruptReply, match="s/t partition 3: the broker's bytes are broken"):
        read(monkeypatch, Log(change=change), 0, 10)


def test_a_damaged_batch_is_an_error_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(data: bytes) -> bytes:
        """Of the batch with offset 20."""
        return data[:-1] + b"X" if data[8:16] == (20).to_bytes(8, "little") else data

    told = r"s/t partition 3: the broker's bytes are broken at offsets 20\u201329"
    with pytest.raises(CorruptReply, match=told):
        read(monkeypatch, Log(change=change), 10, 60)

    left = [n for n in range(10, 60) if n not in range(20, 30)]
    assert read(monkeypatch, Log(change=change), 10, 60, failOnDataLoss="false") == (left, 10)
    assert read(monkeypatch, Log(change=change), 10, 27, failOnDataLoss="false") == (
        list(range(10, 20)), 7,
    )  # fmt: skip
    assert read(monkeypatch, Log(change=change), 10, 60, verifyChecksum="false") == (
        list(range(10, 60)), 0,
    )  # fmt: skip


def test_bytes_that_were_damaged_on_the_way_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = iter([b"X"])

    def change(data: bytes) -> bytes:
        return data[:-1] + next(faults, data[-1:])

    assert read(monkeypatch, Log(change=change), 10, 60) == (list(range(10, 60)), 0)


@pytest.mark.parametrize("kept_back", [range(20, 21), range(20, 50), range(20, 80)])
def test_what_the_broker_keeps_back_is_an_error_or_counted(
    monkeypatch: pytest.MonkeyPatch, kept_back: range
) -> None:
    """It counts messages, and does not give them: it found them damaged on its disk."""
    lost = range(20, min(60, kept_back.stop))
    told = rf"partition 3: offsets 20\u2013{lost[-1]} .* are damaged, the next is {lost.stop};"
    with pytest.raises(DataLoss, match=told):
        read(monkeypatch, Log(kept_back=kept_back), 10, 60)

    left = [n for n in range(10, 60) if n not in lost]
    assert read(monkeypatch, Log(kept_back=kept_back), 10, 60, failOnDataLoss="false") == (
        left, len(lost),
    )  # fmt: skip


def test_messages_from_another_place_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptReply, match=r"asked for offset 20, .* from 0 to 9"):
        read(monkeypatch, Log(change=lambda data: region(0, 10)), 20, 30)


@pytest.mark.parametrize("looks", [1, 2])
def test_a_topic_recreated_meanwhile_is_noticed(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    other = Incarnation(1, 200)
    incarnations = [INCARNATION] * (looks - 1) + [other]

    with pytest.raises(TopicRecreated, match="now 1-200, planned 1-100"):
        read(monkeypatch, Log(incarnations=incarnations), 0, 10)
