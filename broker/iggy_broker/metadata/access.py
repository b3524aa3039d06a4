"""Who may do what: one table of commands, and the decision.

Iggy protocol 0.11, chapter on permissions. Root may do everything. Everybody else needs one of the
flags of the command's row: a global one, one for the stream, or one for the topic. A target that
does not exist is not decided here: its own "not found" goes to everybody, as clients expect.

Every shard decides on its own copy before it serves or forwards, and the writer decides again for
each change, on the state that the change meets. What stands in no row is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, user_changes
from iggy_broker.metadata.change_base import Change
from iggy_broker.metadata.model import ROOT_USER_ID, Caller, Reference, State, User
from iggy_wire.codes import Command
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

PERMISSIONS_BYTES_MAX: Final = 512 * 1024  # of one user: about 20,000 streams or topics by id

Flags = frozenset[str]
NO_FLAGS: Final[Flags] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """Flags of which any one is enough, by where they are set."""

    everywhere: Flags
    stream: Flags = NO_FLAGS
    topic: Flags = NO_FLAGS


def _rule(everywhere: str, stream: str = "", topic: str = "") -> Rule:
    return Rule(*(frozenset(flags.split()) for flags in (everywhere, stream, topic)))


_SERVERS: Final = _rule("manage_servers read_servers")
_READ_USERS: Final = _rule("manage_users read_users")
_MANAGE_USERS: Final = _rule("manage_users")
_READ_STREAM: Final = _rule("manage_streams read_streams", "manage_stream read_stream")
_MANAGE_STREAM: Final = _rule("manage_streams", "manage_stream")
_READ_TOPICS: Final = _rule(
    "manage_streams read_streams manage_topics read_topics",
    "manage_stream read_stream manage_topics read_topics",
)
_READ_TOPIC: Final = Rule(
    _READ_TOPICS.everywhere, _READ_TOPICS.stream, frozenset({"manage_topic", "read_topic"})
)
_MANAGE_TOPICS: Final = _rule("manage_streams manage_topics", "manage_stream manage_topics")
_MANAGE_TOPIC: Final = Rule(
    _MANAGE_TOPICS.everywhere, _MANAGE_TOPICS.stream, frozenset({"manage_topic"})
)
_POLL: Final = Rule(*(flags | {"poll_messages"} for flags in (
    _READ_TOPIC.everywhere, _READ_TOPIC.stream, _READ_TOPIC.topic,
)))  # fmt: skip
_SEND: Final = Rule(*(flags | {"send_messages"} for flags in (
    _MANAGE_TOPIC.everywhere, _MANAGE_TOPIC.stream, _MANAGE_TOPIC.topic,
)))  # fmt: skip

_POLL_OR_SEND: Final = Rule(
    _POLL.everywhere | _SEND.everywhere, _POLL.stream | _SEND.stream, _POLL.topic | _SEND.topic
)

# None: for everybody who is logged in (and a ping for everybody).
ACCESS: Final[Mapping[int, Rule | None]] = {
    Command.PING: None,
    Command.GET_STATS: _SERVERS,
    Command.GET_SNAPSHOT: _SERVERS,
    Command.GET_CLUSTER_METADATA: None,
    Command.DESCRIBE_OPTIONS: None,
    Command.GET_ME: None,
    Command.GET_CLIENT: _SERVERS,
    Command.GET_CLIENTS: _SERVERS,
    Command.GET_USER: _READ_USERS,
    Command.GET_USERS: _READ_USERS,
    Command.CREATE_USER: _MANAGE_USERS,
    Command.DELETE_USER: _MANAGE_USERS,
    Command.UPDATE_USER: _MANAGE_USERS,
    Command.UPDATE_PERMISSIONS: _MANAGE_USERS,
    Command.CHANGE_PASSWORD: _MANAGE_USERS,
    Command.GET_PERSONAL_ACCESS_TOKENS: None,
    Command.CREATE_PERSONAL_ACCESS_TOKEN: None,
    Command.DELETE_PERSONAL_ACCESS_TOKEN: None,
    Command.POLL_MESSAGES: _POLL,
    Command.SEND_MESSAGES: _SEND,
    Command.GET_PARTITION_ROUTE: _POLL_OR_SEND,
    Command.FLUSH_UNSAVED_BUFFER: None,  # nobody may: it is refused as not available
    Command.GET_CONSUMER_OFFSET: _POLL,
    Command.STORE_CONSUMER_OFFSET: _POLL,
    Command.DELETE_CONSUMER_OFFSET: _POLL,
    Command.GET_STREAM: _READ_STREAM,
    Command.GET_STREAMS: _rule("manage_streams read_streams"),
    Command.CREATE_STREAM: _rule("manage_streams"),
    Command.DELETE_STREAM: _MANAGE_STREAM,
    Command.UPDATE_STREAM: _MANAGE_STREAM,
    Command.PURGE_STREAM: _MANAGE_STREAM,
    Command.GET_TOPIC: _READ_TOPIC,
    Command.GET_TOPICS: _READ_TOPICS,
    Command.CREATE_TOPIC: _MANAGE_TOPICS,
    Command.DELETE_TOPIC: _MANAGE_TOPIC,
    Command.UPDATE_TOPIC: _MANAGE_TOPIC,
    Command.UPDATE_RESOURCE: None,  # the change that it becomes is checked
    Command.PURGE_TOPIC: _MANAGE_TOPIC,
    Command.CREATE_PARTITIONS: _MANAGE_TOPIC,
    Command.DELETE_PARTITIONS: _MANAGE_TOPIC,
    Command.DELETE_SEGMENTS: _MANAGE_TOPIC,
    Command.GET_CONSUMER_GROUP: _READ_TOPIC,
    Command.GET_CONSUMER_GROUPS: _READ_TOPIC,
    Command.CREATE_CONSUMER_GROUP: _READ_TOPIC,
    Command.DELETE_CONSUMER_GROUP: _READ_TOPIC,
    Command.JOIN_CONSUMER_GROUP: _READ_TOPIC,
    Command.LEAVE_CONSUMER_GROUP: _READ_TOPIC,
    Command.SYNC_CONSUMER_GROUP: None,
}

# Which row decides on a change that a client asked for. Changes of the broker's own accord are
# submitted as root and need none.
COMMAND_OF_CHANGE: Final[Mapping[type[Change], Command]] = {
    changes.CreateStream: Command.CREATE_STREAM,
    changes.UpdateStream: Command.UPDATE_STREAM,
    changes.DeleteStream: Command.DELETE_STREAM,
    changes.PurgeStream: Command.PURGE_STREAM,
    changes.CreateTopic: Command.CREATE_TOPIC,
    changes.UpdateTopic: Command.UPDATE_TOPIC,
    changes.AlterTopic: Command.UPDATE_TOPIC,
    changes.DeleteTopic: Command.DELETE_TOPIC,
    changes.PurgeTopic: Command.PURGE_TOPIC,
    changes.CreatePartitions: Command.CREATE_PARTITIONS,
    changes.DeletePartitions: Command.DELETE_PARTITIONS,
    changes.CreateGroup: Command.CREATE_CONSUMER_GROUP,
    changes.DeleteGroup: Command.DELETE_CONSUMER_GROUP,
    changes.JoinGroup: Command.JOIN_CONSUMER_GROUP,
    changes.LeaveGroup: Command.LEAVE_CONSUMER_GROUP,
    user_changes.CreateUser: Command.CREATE_USER,
    user_changes.UpdateUser: Command.UPDATE_USER,
    user_changes.DeleteUser: Command.DELETE_USER,
    user_changes.SetPermissions: Command.UPDATE_PERMISSIONS,
    user_changes.SetPassword: Command.CHANGE_PASSWORD,
    user_changes.CreateToken: Command.CREATE_PERSONAL_ACCESS_TOKEN,
    user_changes.DeleteToken: Command.DELETE_PERSONAL_ACCESS_TOKEN,
}

_ON_ONESELF: Final = frozenset({Command.GET_USER, Command.CHANGE_PASSWORD})  # need no flag


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about, as it names it; None where its command names no such thing."""

    stream: Reference | None = None
    topic: Reference | None = None
    user: Reference | None = None


NO_TARGET: Final = Target()


def authorize(state: State, user_id: int, command: int, target: Target = NO_TARGET) -> None:
    """Reject with UNAUTHORIZED, unless the user may. Who may not learns nothing of a user."""
    if user_id == ROOT_USER_ID:
        return
    rule = ACCESS[command]
    user = state.users.get(user_id)
    if user is None or not user.active:
        raise Reject(ErrorCode.UNAUTHORIZED, f"user {user_id} is deleted or inactive")
    if rule is None:
        return
    if command in _ON_ONESELF and target.user is not None and state.find_user(target.user) is user:
        return
    if not _is_allowed(state, user, rule, target):
        name = Command(command).name.lower()
        raise Reject(ErrorCode.UNAUTHORIZED, f"user {user.name!r}: {name} {_told(target)}")


def check_caller(state: State, caller: Caller) -> None:
    """Reject with UNAUTHORIZED a user who was deleted: the id may be another user's by now."""
    if caller.user_id == ROOT_USER_ID:
        return
    user = state.users.get(caller.user_id)
    if user is None or user.created_at_us != caller.since_us:
        raise Reject(ErrorCode.UNAUTHORIZED, f"user {caller.user_id} was deleted meanwhile")


def authorize_change(state: State, user_id: int, change: Change) -> None:
    """The same for a change, on the state that it is about to be applied to."""
    if user_id == ROOT_USER_ID:
        return
    command = COMMAND_OF_CHANGE.get(type(change))
    if command is None:
        detail = f"{type(change).__name__} is for the broker alone"
        raise Reject(ErrorCode.UNAUTHORIZED, detail)
    named = [getattr(change, name, None) for name in ("stream", "topic", "user")]
    authorize(state, user_id, command, Target(*named))


def _is_allowed(state: State, user: User, rule: Rule, target: Target) -> bool:
    grants = grants_of(user.permissions) if user.permissions else _NOTHING
    if not rule.everywhere.isdisjoint(grants.everywhere):
        return True
    if not rule.stream or target.stream is None:
        return False
    stream = state.find_stream(target.stream)
    if stream is None:
        return True  # "not found" for everybody
    of_stream, of_topics = grants.streams.get(stream.id, _NO_STREAM)
    if not rule.topic or target.topic is None:
        return not rule.stream.isdisjoint(of_stream)
    topic = stream.find_topic(target.topic)
    if topic is None or not rule.stream.isdisjoint(of_stream):
        return True
    return not rule.topic.isdisjoint(of_topics.get(topic.id, NO_FLAGS))


def _told(target: Target) -> str:
    parts = (("stream", target.stream), ("topic", target.topic), ("user", target.user))
    return " ".join(f"{name}={value!r}" for name, value in parts if value is not None)


@dataclass(frozen=True, slots=True)
class Grants:
    """Permissions, ready to be asked: by stream id the flags, and those of its topics by id."""

    everywhere: Flags = NO_FLAGS
    streams: Mapping[int, tuple[Flags, Mapping[int, Flags]]] = field(default_factory=dict)


_NOTHING: Final = Grants()
_NO_STREAM: Final[tuple[Flags, Mapping[int, Flags]]] = (NO_FLAGS, {})


@functools.lru_cache(maxsize=256)
def grants_of(permissions: bytes) -> Grants:
    """The permissions of these wire bytes."""
    granted = decoded(permissions)
    return Grants(
        _flags(granted.everywhere),
        {
            stream.stream_id: (
                _flags(stream),
                {topic.topic_id: _flags(topic) for topic in stream.topics},
            )
            for stream in granted.streams
        },
    )


def decoded(permissions: bytes) -> Permissions:
    """The permissions of these wire bytes, which are our own."""
    return Permissions.read(Reader(permissions))


def in_order(permissions: Permissions) -> Permissions:
    """Streams and topics ascending by id; of several with the same id the last one counts."""
    streams = {stream.stream_id: stream for stream in permissions.streams}
    return Permissions(
        permissions.everywhere, tuple(_ordered(streams[number]) for number in sorted(streams))
    )


def _ordered(stream: StreamPermissions) -> StreamPermissions:
    topics = {topic.topic_id: topic for topic in stream.topics}
    in_order = tuple(topics[number] for number in sorted(topics))
    return msgspec.structs.replace(stream, topics=in_order)


def _flags(granted: GlobalPermissions | StreamPermissions | TopicPermissions) -> Flags:
    values = msgspec.structs.asdict(granted)
    return frozenset(name for name, value in values.items() if value is True)
