"""The changes that metadata can undergo, one frozen class each, and their bytes (MessagePack).

A change names its targets as the client did (id or name) and is resolved when it is applied, in
the order of the journal. Everything else that applying needs is in its `Entry`, so that every
shard, and every later start, computes the same state from the same entries.

The bytes are a storage format: tags and field names stay, new fields get a default. A field that
older brokers must not overlook raises `journal.VERSION`, which makes them refuse the files.
"""

from __future__ import annotations

from typing import Final

import msgspec

from iggy_broker.metadata import user_changes
from iggy_broker.metadata.change_base import Change
from iggy_broker.metadata.model import Defaults, Group, Reference, Stream, Topic, User
from iggy_wire.options import Options


class CreateRoot(Change, frozen=True, tag="create_root"):
    """The first entry of a new journal: user 0."""

    name: str
    password_hash: str


class CreateStream(Change, frozen=True, tag="create_stream"):
    """Make a stream with the lowest free id."""

    name: str


class UpdateStream(Change, frozen=True, tag="update_stream"):
    """Rename a stream; its own name is fine."""

    stream: Reference
    name: str


class DeleteStream(Change, frozen=True, tag="delete_stream"):
    """Drop a stream with all that is in it."""

    stream: Reference


class PurgeStream(Change, frozen=True, tag="purge_stream"):
    """Empty every partition of every topic of a stream; offsets start at 0 again."""

    stream: Reference


class CreateTopic(Change, frozen=True, tag="create_topic"):
    """Make a topic with the lowest free id of its stream. Options were checked before."""

    stream: Reference
    name: str
    partitions_count: int
    options: Options = ()
    defaults: Defaults | None = None


class SettleDefaults(Change, frozen=True, tag="settle_defaults"):
    """At start: topics of an older broker get the defaults that are in force now, once."""

    defaults: Defaults


class UpdateTopic(Change, frozen=True, tag="update_topic"):
    """Rename a topic and lay `options` over its own."""

    stream: Reference
    topic: Reference
    name: str
    options: Options = ()


class AlterTopic(Change, frozen=True, tag="alter_topic"):
    """Lay `options` over those of a topic, take `resets` from them; another name unless None."""

    stream: Reference
    topic: Reference
    name: str | None = None
    options: Options = ()
    resets: tuple[str, ...] = ()  # keys


class DeleteTopic(Change, frozen=True, tag="delete_topic"):
    """Drop a topic with its partitions and groups."""

    stream: Reference
    topic: Reference


class PurgeTopic(Change, frozen=True, tag="purge_topic"):
    """Empty every partition of a topic; offsets start at 0 again."""

    stream: Reference
    topic: Reference


class CreatePartitions(Change, frozen=True, tag="create_partitions"):
    """Add partitions with the next ids."""

    stream: Reference
    topic: Reference
    count: int


class DeletePartitions(Change, frozen=True, tag="delete_partitions"):
    """Drop the partitions with the highest ids."""

    stream: Reference
    topic: Reference
    count: int


class CreateGroup(Change, frozen=True, tag="create_group"):
    """Make a consumer group."""

    stream: Reference
    topic: Reference
    name: str


class DeleteGroup(Change, frozen=True, tag="delete_group"):
    """Drop a consumer group."""

    stream: Reference
    topic: Reference
    group: Reference


class Volatile(Change, frozen=True):
    """Base of changes that live as long as the broker runs: who is a member of which group.

    They go the same way as all others and stand in the same order, but have no journal position of
    their own and are never written: no session, and so no member, outlives the broker.
    """


class JoinGroup(Volatile, frozen=True, tag="join_group"):
    """A session becomes a member; twice is fine."""

    stream: Reference
    topic: Reference
    group: Reference
    session: int
    busy: tuple[int, ...] = ()  # filled in by shard 0: see `groups.busy_partitions`


class LeaveGroup(Volatile, frozen=True, tag="leave_group"):
    """A session is no member any more."""

    stream: Reference
    topic: Reference
    group: Reference
    session: int


class EndSession(Volatile, frozen=True, tag="end_session"):
    """A session is over: it leaves all its groups."""

    session: int


class MoveSession(Volatile, frozen=True, tag="move_session"):
    """A client logged in again with its id: its new session is a member where the old one was."""

    before: int
    after: int


class CompleteHandover(Volatile, frozen=True, tag="complete_handover"):
    """A partition goes to the member that waits for it; nothing if that is settled already."""

    stream_id: int
    topic_id: int
    group_id: int
    partition_id: int
    since_us: int  # which hand-over is meant


AnyChange = (
    CreateRoot
    | CreateStream
    | UpdateStream
    | DeleteStream
    | PurgeStream
    | CreateTopic
    | SettleDefaults
    | UpdateTopic
    | AlterTopic
    | DeleteTopic
    | PurgeTopic
    | CreatePartitions
    | DeletePartitions
    | CreateGroup
    | DeleteGroup
    | user_changes.CreateUser
    | user_changes.UpdateUser
    | user_changes.DeleteUser
    | user_changes.SetPermissions
    | user_changes.SetPassword
    | user_changes.CreateToken
    | user_changes.DeleteToken
    | user_changes.DropExpiredTokens
    | JoinGroup
    | LeaveGroup
    | EndSession
    | MoveSession
    | CompleteHandover
)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One change with its place and time in the journal."""

    op: int  # counts from 1 without gaps; of a volatile change: the op before it
    at_us: int  # shard 0's clock when it took the change: `created_at` of what it makes
    user_id: int  # who asked
    change: AnyChange


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the caller of `submit` gets: where the change landed, and the thing that it made.

    The thing comes along because a later change may have removed it from the state already.
    """

    op: int
    at_us: int
    stream: Stream | None = None  # CreateStream
    stream_id: int = -1  # CreateTopic
    topic: Topic | None = None  # CreateTopic
    group: Group | None = None  # CreateGroup
    partitions_count: int = 0  # CreateGroup: of its topic
    user: User | None = None  # CreateUser


_ENTRIES_ENCODER: Final = msgspec.msgpack.Encoder()
_ENTRIES_DECODER: Final = msgspec.msgpack.Decoder(list[Entry])


def encode_entries(entries: list[Entry]) -> bytes:
    """The bytes of one journal record, and of one message to the other shards."""
    return _ENTRIES_ENCODER.encode(entries)


def decode_entries(data: bytes | memoryview) -> list[Entry]:
    """Inverse of `encode_entries`; msgspec.MsgspecError if these are no entries."""
    return _ENTRIES_DECODER.decode(data)
