"""One task's read where there is an archive: from there, from the broker, or both in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from iggy_spark.archive_fetch import SegmentReader
from iggy_spark.archive_places import ArchivedConnection, HeldPartition, JoinedConnection
from iggy_spark.archived import archive_of
from iggy_spark.errors import BrokerRefused, TopicRecreated
from iggy_spark.fetch import RangeFetch, lose
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import ReadOptions
from iggy_wire.kernel import Columns


class Fetch(Protocol):
    """Columns of one range in offset order."""

    lost: int
    """Messages that were not there."""

    def __iter__(self) -> Iterator[Columns]:
        """Raises as `RangeFetch`, and ArchiveUnreadable."""


class ArchivedFetch:
    """The range from the archive alone."""

    def __init__(self, options: ReadOptions, wanted: OffsetRange) -> None:
        """Nothing is asked before the first iteration."""
        assert options.archive is not None, "who has none asks the broker"
        self._options, self._wanted = options, wanted
        self._connection = ArchivedConnection(options, options.archive)
        self._reader = _reader(options)
        self.lost = 0

    def __iter__(self) -> Iterator[Columns]:
        """See `Fetch`."""
        wanted, held = self._wanted, self._planned()
        if held is None:
            self._lose(wanted.first, wanted.end)
        else:
            yield from self._reader.fetch(held, wanted.first, wanted.end, lose=self._lose)

    def _planned(self) -> HeldPartition | None:
        """Another process has planned the range, and may have seen more than this one had by then:
        what does not fit is looked at again.
        """
        with suppress(BrokerRefused, TopicRecreated):
            found = self._connection.planned(self._wanted)
            if found is not None:
                return found
        return self._connection.planned(self._wanted, again=True)

    def _lose(self, first: int, end: int) -> None:
        nor = " from the archive"
        self.lost += lose(self._options, self._wanted.partition, first, end, nor=nor)


class JoinedFetch:
    """The range from both. What is below the broker's own log is read from the archive, and what
    the broker has no more as well; all else is polled.
    """

    def __init__(self, options: ReadOptions, wanted: OffsetRange) -> None:
        """Nothing is asked before the first iteration."""
        assert options.archive is not None, "who has none asks the broker"
        self._options, self._wanted = options, wanted
        self._connection = JoinedConnection(options, options.archive)
        self._reader = _reader(options)
        self.lost = 0

    def __iter__(self) -> Iterator[Columns]:
        """See `Fetch`."""
        at, end = self._wanted.first, self._wanted.end
        local = min(end, self._local())
        held = self._connection.held(self._wanted.partition) if at < local else None
        if held is not None:
            for columns in self._reader.fetch(held, at, local):
                at = int.from_bytes(columns.offsets[-8:], "little") + 1
                yield columns
        # Where nothing is left this only looks whether the topic is still the same.
        rest = replace(self._wanted, first=at)
        polled = RangeFetch(self._options, rest, elsewhere=self._elsewhere)
        yield from polled
        self.lost += polled.lost

    def _local(self) -> int:
        """Where the broker's own messages begin; 0 if it has another topic."""
        number, state = self._wanted.partition, self._connection.topic_state()
        if str(state.incarnation) != self._wanted.incarnation or number not in state.ends:
            return 0
        return state.ends[number] - state.kept[number].messages

    def _elsewhere(self, first: int, end: int) -> Iterator[Columns]:
        """What the broker has no more."""
        number = self._wanted.partition
        held = self._connection.held(number) or self._connection.held(number, again=True)
        if held is None:
            self._lose(first, end)
        else:
            yield from self._reader.fetch(held, first, end, lose=self._lose)

    def _lose(self, first: int, end: int) -> None:
        nor = ", and not in the archive"
        self.lost += lose(self._options, self._wanted.partition, first, end, nor=nor)


def _reader(options: ReadOptions) -> SegmentReader:
    assert options.archive is not None, "checked by who asks"
    archive = archive_of(options.archive, options.retry_timeout_ms)
    return SegmentReader(
        archive,
        options.fetch_bytes,
        verify=options.verify_checksum,
        skips=not options.fail_on_data_loss,
    )


def fetch_of(options: ReadOptions, wanted: OffsetRange) -> Fetch:
    """The range from wherever the options say."""
    if options.archive is None:
        return RangeFetch(options, wanted)
    if options.archive.is_all:
        return ArchivedFetch(options, wanted)
    return JoinedFetch(options, wanted)
