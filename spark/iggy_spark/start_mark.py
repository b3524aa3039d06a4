"""Where a query began, kept at the broker until its first batch is done.

For a query without a folder for it. The start of a partition is the offset that the plain consumer
"<group>.start" has stored; a consumer group of that name says that all of them are there, since a
start at 0 cannot be stored (Iggy protocol 0.11 stores the last message that is done).
"""

from __future__ import annotations

from collections.abc import Mapping

from iggy_client import Client, ClientError
from iggy_spark.connections import Connection
from iggy_spark.options import ReadOptions
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer

SUFFIX = ".start"

_GONE = frozenset((ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND))


class StartMark:
    """The mark of one query in one topic."""

    def __init__(self, options: ReadOptions, connection: Connection) -> None:
        """`options` of that topic."""
        self._topic = (options.stream, options.topic)
        self._name = f"{options.consumer_group}{SUFFIX}"
        self._connection = connection

    def read(self, partitions: Mapping[int, int]) -> dict[int, int] | None:
        """First offset by partition, of those that there are; None if there is no mark."""
        if self._connection.call(lambda client: client.get_group(*self._topic, self._name)) is None:
            return None
        whose = Consumer.plain(self._name)
        stored = {number: self._connection.stored_by(whose, number) for number in partitions}
        return {number: 0 if last is None else last + 1 for number, last in stored.items()}

    def write(self, positions: Mapping[int, int]) -> None:
        """Leave the mark."""
        for number, position in positions.items():
            self._connection.store_plain(self._name, number, position - 1 if position else None)
        self._connection.call(self._create)

    def remove(self, partitions: Mapping[int, int]) -> None:
        """Take it away, if it is there: stored offsets keep segments from being deleted."""
        self._connection.call(self._delete)
        for number in partitions:
            self._connection.store_plain(self._name, number, None)

    def _create(self, client: Client) -> None:
        try:
            client.create_group(*self._topic, self._name)
        except ClientError as error:
            if error.code != ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS:
                raise

    def _delete(self, client: Client) -> None:
        if client.get_group(*self._topic, self._name) is None:
            return
        try:
            client.delete_group(*self._topic, self._name)
        except ClientError as error:
            if error.code not in _GONE:
                raise
