"""The driver's place in its consumer group: the only member, so that nobody else moves its offsets.

Iggy protocol 0.11: a member is a session, and only the member that owns a partition stores the
group's offset for it. So this is a connection of its own, kept alive by pings during the longest
batch, and joined anew after every loss. Tasks never join: they read by offset.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from iggy_client import Client, ClientError
from iggy_client.errors import LinkError
from iggy_client.keep_alive import KeptAlive
from iggy_spark.connections import connect, incarnation_of, move_offset, retrying
from iggy_spark.errors import BrokerRefused, Fenced, TopicRecreated
from iggy_spark.options import ReadOptions
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import Consumer

T = TypeVar("T")

PING_S: Final = 1.0  # so a heartbeat interval of 2 s at the broker is long enough
OCCUPIED_S_MAX: Final = 40.0  # a dead member is sent away after 36 s, unless configured otherwise
LOOK_S: Final = 0.1  # between looks whether the others are gone

_NO_MEMBERSHIP: Final = frozenset(
    (ErrorCode.UNAUTHORIZED, ErrorCode.FEATURE_UNAVAILABLE, ErrorCode.INVALID_COMMAND)
)


class Occupied(Fenced):
    """Somebody else is a member; maybe a dead one that the broker has not missed yet."""


class CannotJoin(BrokerRefused):
    """The broker gives us no membership: no permission, no room, or no groups at all."""


class Membership:
    """Joins when it is first used. Not for use by two threads at a time."""

    def __init__(self, options: ReadOptions, *, waits: bool) -> None:
        """Opens nothing. `waits`: calls go on trying for as long as `retryTimeoutMs` says, and wait
        for other members to go; otherwise they try once.
        """
        assert options.consumer_group is not None, "checked with the options"
        self._options = options if waits else replace(options, retry_timeout_ms=0)
        self._waits = waits
        self._occupied_s_max = min(OCCUPIED_S_MAX, options.retry_timeout_ms / 1000)
        self._occupied_since: float | None = None
        self._group = options.consumer_group
        self._incarnation = ""
        self._kept: KeptAlive | None = None
        self.joins = 0  # how often; between two, others may have moved the offsets

    def join(self, incarnation: str) -> None:
        """Be the only member, in this life of the topic. Asks nobody as long as that holds.

        Raises:
            Fenced: somebody else is a member, and stays.
            Occupied: the same, but may still go; only if this does not wait.
            CannotJoin: the broker gives us no membership.
            TopicRecreated: the topic is gone or lives another life.
            BrokerRefused, BrokerUnavailable: as `retrying`.
        """
        if incarnation != self._incarnation:
            self.close()
            self._incarnation = incarnation
        if self._kept is not None and not self._kept.is_open:
            self._drop()
        if self._kept is None:
            self._call(lambda client: None)

    def move(self, partition: int, offset: int | None) -> bool:
        """Store the last offset that the group is done with, or forget that there is one.

        False: not done, since we had to join again. Another may have been here: look anew.

        Raises:
            BrokerRefused: no such offset, or another member has the partition.
            Fenced, Occupied, CannotJoin, TopicRecreated, BrokerUnavailable: as `join`.
        """
        options = self._options
        target = (Consumer.group(self._group), options.stream, options.topic, partition)

        joins = self.joins

        def work(client: Client) -> bool:
            if self.joins != joins:
                return False
            try:
                move_offset(client, *target, offset)
            except ClientError as error:
                if error.code == ErrorCode.RESOURCE_NOT_FOUND:
                    self._check_owner(client, partition)
                raise
            return True

        return self._call(work)

    def close(self) -> None:
        """Leave the group. Who uses this again joins again."""
        if self._kept is not None:
            with suppress(ClientError, LinkError, WireError), self._kept.use() as client:
                client.leave_group(self._options.stream, self._options.topic, self._group)
            self._drop()

    def _call(self, work: Callable[[Client], T]) -> T:
        while True:
            try:
                return retrying(self._options, lambda: self._attempt(work), drop=self._drop)
            except Occupied:
                if not self._waits:
                    raise
            # Two that met here must not meet again.
            time.sleep(LOOK_S * random.uniform(0.5, 1.5))

    def _attempt(self, work: Callable[[Client], T]) -> T:
        if self._kept is None:
            self._kept = self._joined()
        with self._kept.use() as client:
            return work(client)

    def _joined(self) -> KeptAlive:
        client = connect(self._options)
        try:
            self._enter(client)
        except BaseException:
            client.close()
            raise
        self._occupied_since = None
        self.joins += 1
        return KeptAlive(client, interval_s=PING_S)

    def _enter(self, client: Client) -> None:
        options = self._options
        found = client.get_topic(options.stream, options.topic)
        if found is None or str(incarnation_of(found)) != self._incarnation:
            raise TopicRecreated(f"topic {options.topic_name} is not {self._incarnation} any more")
        try:
            # Looking comes first: a join takes partitions from whoever has them.
            if self._members(client):
                raise self._occupied()
            client.join_group(options.stream, options.topic, self._group)
        except ClientError as error:
            if error.code in _NO_MEMBERSHIP:
                raise CannotJoin(f"cannot join {self._where()}: {error}") from error
            raise
        if self._members(client) > 1:
            raise self._occupied()

    def _members(self, client: Client) -> int:
        options = self._options
        found = client.get_group(options.stream, options.topic, self._group)
        if found is not None:
            return found.group.members_count
        try:
            client.create_group(options.stream, options.topic, self._group)
        except ClientError as error:
            if error.code != ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS:
                raise
        return 0

    def _occupied(self) -> Fenced:
        now = time.monotonic()
        self._occupied_since = self._occupied_since or now
        kind = Fenced if now - self._occupied_since >= self._occupied_s_max else Occupied
        return kind(
            f"{self._where()} has another member: stop the query or program that reads with it, "
            "or give this one a consumerGroup of its own (a sink or source: a name of its own)"
        )

    def _check_owner(self, client: Client, partition: int) -> None:
        """Why a partition is not ours: after a `LinkError` we join again."""
        options = self._options
        assigned = client.sync_group(options.stream, options.topic, self._group)
        if assigned is None or partition in assigned.partitions:
            raise LinkError(f"{self._where()} has lost this member")
        if self._members(client) > 1:
            raise BrokerRefused(
                f"another member of {self._where()} has the partition: stop it, or give this query "
                "a consumerGroup of its own (a sink or source: a name of its own)"
            )

    def _drop(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _where(self) -> str:
        return f"consumer group {self._group!r} of {self._options.topic_name}"
