"""Messages of one range on their way out of PostgreSQL, perhaps over several connections."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa

from iggy_spark.errors import IggySparkError
from iggy_spark.postgres import Connection, meaning
from iggy_spark.retry import TransientError
from iggy_spark.sources.postgres_link import WORDS, Link, begin
from iggy_spark.sources.postgres_messages import Message, batches

Place = Any
"""Where a message stands in its range, in whatever way its reader counts."""
Placed = tuple[Place, Message]
Reader = Callable[[Connection, Place | None], Generator[Placed]]
"""Begins to read on a connection, behind the message at a place or at the start."""


def stream(link: Link, reader: Reader) -> Iterator[pa.RecordBatch]:
    """The messages in batches of a bounded size. A connection that is lost is made anew, and what
    was handed on before is not handed on again.

    Raises:
        SinkError: the database stays away, or refuses.
    """
    with closing(_Stream(link, reader)) as opened:
        while (batch := link.again(opened.next)) is not None:
            yield batch


class _Stream:
    def __init__(self, link: Link, reader: Reader) -> None:
        self._link, self._reader = link, reader
        self._done: Place | None = None  # of the last message that was handed on
        self._passed: Place | None = None
        self._connection: Connection | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def next(self) -> pa.RecordBatch | None:
        """The next batch, None at the end.

        Raises:
            TransientError: the connection is lost; the next call opens another.
        """
        try:
            if self._connection is None:
                self._connection = self._link.connect()
                begin(self._connection)
                self._batches = batches(self._messages(self._connection))
            batch = next(self._batches, None)
        except psycopg.Error as error:
            self.close()
            raise meaning(error, WORDS) from error
        except (TransientError, IggySparkError):
            self.close()
            raise
        self._done = self._passed
        return batch

    def _messages(self, connection: Connection) -> Iterator[Message]:
        with closing(self._reader(connection, self._done)) as found:
            for place, message in found:
                self._passed = place
                yield message

    def close(self) -> None:
        """Let go of the connection, in the middle of an answer too."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._batches = iter(())
