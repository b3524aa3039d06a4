"""The metadata of a broker as frozen values. Knows nothing of files, sockets or clocks.

A `State` is never changed: `apply` makes a new one that shares everything untouched with the old
one. One change to one topic copies the topic, the table of topics of its stream and the table of
streams (pointers only), and nothing else.

Ids count from 0 (Iggy protocol 0.11). Stream, topic and partition-slot numbers are the lowest free
ones and are reused; group ids count up per topic and are never reused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata.memberships import Memberships
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options

STREAMS_MAX: Final = 1 << 20  # beyond: TOO_MANY_STREAMS
TOPICS_PER_STREAM_MAX: Final = 4096  # beyond: TOO_MANY_TOPICS
PARTITIONS_PER_TOPIC_MAX: Final = 1_000_000  # beyond: PARTITION_ID_SPACE_EXHAUSTED
PARTITIONS_PER_REQUEST_MAX: Final = 1000  # beyond: TOO_MANY_PARTITIONS
SLOTS_MAX: Final = 262_144  # partitions of the whole broker; beyond: TOO_MANY_PARTITIONS
GROUPS_PER_TOPIC_MAX: Final = 65_536  # beyond: FEATURE_UNAVAILABLE
USERS_MAX: Final = 65_536  # beyond: USERS_LIMIT_REACHED
NAME_BYTES_MAX: Final = 255

NEVER: Final = 0  # as a moment: not at all
MOMENT_US_MAX: Final = (1 << 64) - 2  # all ones mean "never" on the wire

ROOT_USER_ID: Final = 0
ROOT_CREATED_AT_US: Final = 1  # Iggy protocol 0.11: the root user's creation time is the number 1

Reference = int | str  # an id, or a name; a name made of digits is a name


class IdPool(msgspec.Struct, frozen=True, array_like=True):
    """Numbers from 0; `take` gives the lowest free ones."""

    next: int = 0  # nothing from here on was ever given
    free: tuple[int, ...] = ()  # returned numbers below `next`, ascending

    @property
    def used(self) -> int:
        """How many numbers are out."""
        return self.next - len(self.free)

    def take(self, count: int) -> tuple[tuple[int, ...], IdPool]:
        """The lowest `count` free numbers, and the pool without them."""
        fresh = max(0, count - len(self.free))
        taken = self.free[:count] + tuple(range(self.next, self.next + fresh))
        return taken, IdPool(self.next + fresh, self.free[count:])

    def give(self, numbers: tuple[int, ...]) -> IdPool:
        """The pool with `numbers` free again."""
        return IdPool(self.next, tuple(sorted(self.free + numbers))) if numbers else self


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """One partition. Its numbers that change with every batch are in the partition table."""

    id: int
    slot: int  # row in the shared partition table
    created_at_us: int
    incarnation: (
        int  # journal position of its creation: files of another one are of an earlier life
    )
    purges: int = 0  # how often it was emptied; files that know of fewer must be emptied still


class Group(msgspec.Struct, frozen=True):
    """A consumer group. Its members are in `State.memberships`: they die with a restart."""

    id: int
    name: str
    created_at_us: int


class Defaults(msgspec.Struct, frozen=True):
    """What the node's settings said when a topic was made, of what is frozen then.

    Iggy protocol 0.11: these two belong to the topic from then on, all others follow the node.
    """

    message_expiry_us: int
    max_topic_size_bytes: int


class Topic(msgspec.Struct, frozen=True):
    """A topic with its partitions in ascending order: `partitions[n].id == n`."""

    id: int
    name: str
    created_at_us: int
    options: Options = ()  # explicit ones, ascending by key, with the kinds they were sent in
    partitions: tuple[Partition, ...] = ()
    groups: Mapping[int, Group] = {}
    group_names: Mapping[str, int] = {}
    next_group_id: int = 0
    defaults: Defaults | None = None  # None: made by an older broker, settled at the next start

    def find_group(self, group: Reference) -> Group | None:
        """The group with that id or name."""
        number = self.group_names.get(group) if isinstance(group, str) else group
        return None if number is None else self.groups.get(number)

    def group(self, group: Reference) -> Group:
        """The group with that id or name; CONSUMER_GROUP_ID_NOT_FOUND."""
        found = self.find_group(group)
        if found is None:
            raise Reject(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND, f"group {group!r}")
        return found

    def partition(self, partition_id: int) -> Partition:
        """The partition with that id; PARTITION_NOT_FOUND."""
        if not 0 <= partition_id < len(self.partitions):
            raise Reject(ErrorCode.PARTITION_NOT_FOUND, f"partition {partition_id}")
        return self.partitions[partition_id]

    def groups_by_id(self) -> list[Group]:
        """All groups, ascending by id."""
        return [self.groups[number] for number in sorted(self.groups)]


class Stream(msgspec.Struct, frozen=True):
    """A named set of topics."""

    id: int
    name: str
    created_at_us: int
    topics: Mapping[int, Topic] = {}
    topic_names: Mapping[str, int] = {}
    topic_ids: IdPool = IdPool()

    def find_topic(self, topic: Reference) -> Topic | None:
        """The topic with that id or name."""
        number = self.topic_names.get(topic) if isinstance(topic, str) else topic
        return None if number is None else self.topics.get(number)

    def topic(self, topic: Reference) -> Topic:
        """The topic with that id or name; TOPIC_ID_NOT_FOUND."""
        found = self.find_topic(topic)
        if found is None:
            raise Reject(ErrorCode.TOPIC_ID_NOT_FOUND, f"topic {topic!r} in stream {self.name!r}")
        return found

    def topics_by_id(self) -> list[Topic]:
        """All topics, ascending by id."""
        return [self.topics[number] for number in sorted(self.topics)]


class Token(msgspec.Struct, frozen=True, array_like=True):
    """A personal access token. The text to log in with is known to its owner only."""

    name: str
    token_hash: str  # `credentials.hash_token`
    expires_at_us: int = NEVER

    def is_over(self, now_us: int) -> bool:
        """Whether it has expired."""
        return self.expires_at_us != NEVER and self.expires_at_us <= now_us


class User(msgspec.Struct, frozen=True):
    """Somebody who may log in."""

    id: int
    name: str
    password_hash: str  # argon2id, encoded; never leaves this process family
    created_at_us: int
    active: bool = True
    permissions: bytes = b""  # as on the wire; empty: none. Root needs none
    tokens: Mapping[str, Token] = {}  # by name


class Caller(msgspec.Struct, frozen=True, array_like=True):
    """Who asks for a change. Ids of users are given again: the time tells one from the next."""

    user_id: int
    since_us: int  # when the user was made


BROKER: Final = Caller(ROOT_USER_ID, ROOT_CREATED_AT_US)  # the broker itself acts as root


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """A partition and where it hangs: what a shard needs to open, purge or remove it."""

    stream_id: int
    topic_id: int
    partition: Partition


class State(msgspec.Struct, frozen=True):
    """All metadata after the change number `op`."""

    op: int = 0  # journal position of the last change in here
    streams: Mapping[int, Stream] = {}
    stream_names: Mapping[str, int] = {}
    stream_ids: IdPool = IdPool()
    users: Mapping[int, User] = {}
    user_names: Mapping[str, int] = {}
    slots: IdPool = IdPool()
    token_owners: Mapping[str, int] = {}  # user by the hash of a token
    memberships: Memberships = Memberships()  # not on disk; see there

    def find_stream(self, stream: Reference) -> Stream | None:
        """The stream with that id or name."""
        number = self.stream_names.get(stream) if isinstance(stream, str) else stream
        return None if number is None else self.streams.get(number)

    def stream(self, stream: Reference) -> Stream:
        """The stream with that id or name; STREAM_ID_NOT_FOUND."""
        found = self.find_stream(stream)
        if found is None:
            raise Reject(ErrorCode.STREAM_ID_NOT_FOUND, f"stream {stream!r}")
        return found

    def find_topic(self, stream: Reference, topic: Reference) -> tuple[Stream, Topic] | None:
        """Stream and topic, or nothing if either is missing."""
        parent = self.find_stream(stream)
        found = None if parent is None else parent.find_topic(topic)
        return None if parent is None or found is None else (parent, found)

    def topic(self, stream: Reference, topic: Reference) -> tuple[Stream, Topic]:
        """Stream and topic; STREAM_ID_NOT_FOUND or TOPIC_ID_NOT_FOUND, in this order."""
        parent = self.stream(stream)
        return parent, parent.topic(topic)

    def find_user(self, user: Reference) -> User | None:
        """The user with that id or name."""
        number = self.user_names.get(user) if isinstance(user, str) else user
        return None if number is None else self.users.get(number)

    def find_token(self, token_hash: str) -> tuple[User, Token] | None:
        """The token with this hash and its owner."""
        owner = self.users.get(self.token_owners.get(token_hash, -1))
        if owner is None:
            return None
        return next(
            ((owner, token) for token in owner.tokens.values() if token.token_hash == token_hash),
            None,
        )

    def streams_by_id(self) -> list[Stream]:
        """All streams, ascending by id."""
        return [self.streams[number] for number in sorted(self.streams)]

    def placed(self) -> Iterator[Placed]:
        """Every partition of the broker, ascending by stream, topic and partition."""
        for stream in self.streams_by_id():
            for topic in stream.topics_by_id():
                for partition in topic.partitions:
                    yield Placed(stream.id, topic.id, partition)
