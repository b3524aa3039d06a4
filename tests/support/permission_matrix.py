"""Who may do what, written down by hand from the protocol: flags by command and place.

Iggy protocol 0.11, chapter on permissions: any one flag of a row is enough.
"""

from __future__ import annotations

from iggy_wire.codes import Command
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

GLOBAL_FLAGS = GlobalPermissions.__struct_fields__
STREAM_FLAGS = StreamPermissions.__struct_fields__[1:7]
TOPIC_FLAGS = TopicPermissions.__struct_fields__[1:]

FOR_ALL = None  # whoever is logged in

_SERVERS = ("manage_servers read_servers", "", "")
_READ_USERS = ("manage_users read_users", "", "")
_MANAGE_USERS = ("manage_users", "", "")
_MANAGE_STREAM = ("manage_streams", "manage_stream", "")
_READ_TOPIC = (
    "manage_streams read_streams manage_topics read_topics",
    "manage_stream read_stream manage_topics read_topics",
    "manage_topic read_topic",
)
_MANAGE_TOPIC = ("manage_streams manage_topics", "manage_stream manage_topics", "manage_topic")
_POLL = (
    "poll_messages manage_topics read_topics manage_streams read_streams",
    "poll_messages manage_topics read_topics manage_stream read_stream",
    "poll_messages manage_topic read_topic",
)

MATRIX: dict[Command, tuple[str, str, str] | None] = {
    Command.PING: FOR_ALL,
    Command.GET_ME: FOR_ALL,
    Command.GET_CLUSTER_METADATA: FOR_ALL,
    Command.DESCRIBE_OPTIONS: FOR_ALL,
    Command.GET_PERSONAL_ACCESS_TOKENS: FOR_ALL,
    Command.CREATE_PERSONAL_ACCESS_TOKEN: FOR_ALL,
    Command.DELETE_PERSONAL_ACCESS_TOKEN: FOR_ALL,
    Command.SYNC_CONSUMER_GROUP: FOR_ALL,
    Command.FLUSH_UNSAVED_BUFFER: FOR_ALL,
    Command.UPDATE_RESOURCE: FOR_ALL,  # the update of a topic, stream or user that it is decides
    Command.GET_STATS: _SERVERS,
    Command.GET_CLIENT: _SERVERS,
    Command.GET_CLIENTS: _SERVERS,
    Command.GET_SNAPSHOT: _SERVERS,
    Command.GET_USER: _READ_USERS,
    Command.GET_USERS: _READ_USERS,
    Command.CREATE_USER: _MANAGE_USERS,
    Command.UPDATE_USER: _MANAGE_USERS,
    Command.DELETE_USER: _MANAGE_USERS,
    Command.UPDATE_PERMISSIONS: _MANAGE_USERS,
    Command.CHANGE_PASSWORD: _MANAGE_USERS,
    Command.GET_STREAMS: ("manage_streams read_streams", "", ""),
    Command.GET_STREAM: ("manage_streams read_streams", "manage_stream read_stream", ""),
    Command.CREATE_STREAM: ("manage_streams", "", ""),
    Command.UPDATE_STREAM: _MANAGE_STREAM,
    Command.DELETE_STREAM: _MANAGE_STREAM,
    Command.PURGE_STREAM: _MANAGE_STREAM,
    Command.GET_TOPICS: (*_READ_TOPIC[:2], ""),
    Command.GET_TOPIC: _READ_TOPIC,
    Command.CREATE_TOPIC: (*_MANAGE_TOPIC[:2], ""),
    Command.UPDATE_TOPIC: _MANAGE_TOPIC,
    Command.DELETE_TOPIC: _MANAGE_TOPIC,
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
    Command.POLL_MESSAGES: _POLL,
    Command.GET_PARTITION_ROUTE: tuple(f"{poll} send_messages" for poll in _POLL),
    Command.GET_CONSUMER_OFFSET: _POLL,
    Command.STORE_CONSUMER_OFFSET: _POLL,
    Command.DELETE_CONSUMER_OFFSET: _POLL,
    Command.SEND_MESSAGES: (
        "send_messages manage_streams manage_topics",
        "send_messages manage_stream manage_topics",
        "send_messages manage_topic",
    ),
}

# Every flag there is, alone: where it stands and its name.
GRANTS = [
    *(("global", flag) for flag in GLOBAL_FLAGS),
    *(("stream", flag) for flag in STREAM_FLAGS),
    *(("topic", flag) for flag in TOPIC_FLAGS),
]


def permissions_of(grant: tuple[str, str], stream_id: int, topic_id: int) -> Permissions:
    """One flag, for everything, for that stream, or for that topic."""
    place, flag = grant
    if place == "global":
        return Permissions(GlobalPermissions(**{flag: True}))
    if place == "stream":
        return Permissions(streams=(StreamPermissions(stream_id, **{flag: True}),))
    topic = TopicPermissions(topic_id, **{flag: True})
    return Permissions(streams=(StreamPermissions(stream_id, topics=(topic,)),))


def is_enough(command: Command, grant: tuple[str, str]) -> bool:
    """What the matrix says."""
    row = MATRIX[command]
    if row is FOR_ALL:
        return True
    place, flag = grant
    return flag in row[("global", "stream", "topic").index(place)].split()
