"""Bodies from and to 0.11: of requests that differ, and of replies about what has options there."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from iggy_wire.buffer import Buffer
from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, name_bytes
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options, Value, make_options
from iggy_wire.permissions import optional_permissions_bytes
from iggy_wire.primitives import AckLevel, Identifier
from iggy_wire.replies import (
    Stream,
    StreamDetails,
    Streams,
    TopicDetails,
    TopicHeader,
    Topics,
    User,
    UserDetails,
    Users,
)
from iggy_wire.requests import CreateTopic, Login, LoginWithToken, UpdateTopic
from iggy_wire.v08 import v06

SDK_NAME: Final = "sdk-0.8"
REPLICATION_FACTOR: Final = 1

_UNKNOWN: Final = "unknown"
_COMPRESSIONS: Final = {1: "none", 2: "gzip"}
_LIMITS: Final = Struct("<BQQB")  # compression, expiry, size limit, replication factor
_STREAM: Final = Struct("<IQIQQ")
_TOPIC: Final = Struct("<IQIQBQBQQ")
_USER: Final = Struct("<IQB")
_PARTITION_BYTES: Final = 40

Translate = Callable[[Buffer], bytes]


def login(payload: Buffer) -> Login:
    """A login by password. WireError."""
    reader = Reader(payload, ErrorCode.INVALID_FORMAT)
    username, password = reader.name("username"), reader.text8("password")
    version = reader.text32("sdk version") or _UNKNOWN
    return Login(P11.version, SDK_NAME, version[:255], username, password)


def is_v06_login(payload: Buffer) -> bool:
    """Whether a well-formed login by password tells a client of servers up to 0.6."""
    reader = Reader(payload)
    reader.name("username")
    reader.text8("password")
    version = reader.text32("sdk version")
    return v06.is_v06(version, reader.text32("context") if reader.remaining else "")


def token_login(payload: Buffer) -> LoginWithToken:
    """A login by token. WireError."""
    token = Reader(payload, ErrorCode.INVALID_FORMAT).text8("token")
    return LoginWithToken(P11.version, SDK_NAME, _UNKNOWN, token)


def request_body(command: int, payload: Buffer) -> bytes:
    """The body that 0.11 has for the same request. WireError."""
    translate = _REQUESTS.get(command)
    return bytes(payload) if translate is None else translate(payload)


def reply_payload(command: int, body: Buffer) -> bytes:
    """What servers up to 0.8 answered where 0.11 has this body. Nothing stays nothing."""
    translate = _REPLIES.get(command)
    return bytes(body) if translate is None or not len(body) else translate(body)


def _create_topic(payload: Buffer) -> bytes:
    reader = Reader(payload)
    stream, count = Identifier.read(reader, "stream"), reader.u32("partitions count")
    options = _options(reader)
    return CreateTopic(stream, count, reader.name("topic name"), options).encode()


def _update_topic(payload: Buffer) -> bytes:
    reader = Reader(payload)
    stream, topic = Identifier.read(reader, "stream"), Identifier.read(reader, "topic")
    options = _options(reader)
    return UpdateTopic(stream, topic, reader.name("topic name"), options).encode()


def _options(reader: Reader) -> Options:
    """Zero stands for the server's own, in both protocols: then nothing is asked for."""
    code, expiry_us, size_bytes, _ = reader.unpack(_LIMITS, "topic")
    if code not in _COMPRESSIONS:
        reader.fail(f"compression: must be 1 (none) or 2 (gzip), is {code}")
    options: dict[str, Value] = {"compression_algorithm": _COMPRESSIONS[code]}
    if expiry_us:
        options["message_expiry"] = expiry_us
    if size_bytes:
        options["max_topic_size"] = size_bytes
    return make_options(options)


def _with_ack(payload: Buffer) -> bytes:
    return bytes(payload) + bytes((AckLevel.QUORUM,))


_REQUESTS: Final[dict[int, Translate]] = {
    Command.CREATE_TOPIC: _create_topic,
    Command.UPDATE_TOPIC: _update_topic,
    Command.STORE_CONSUMER_OFFSET: _with_ack,
    Command.DELETE_CONSUMER_OFFSET: _with_ack,
}


def _stream(stream: Stream) -> bytes:
    head = _STREAM.pack(
        stream.id,
        stream.created_at_us,
        stream.topics_count,
        stream.size_bytes,
        stream.messages_count,
    )
    return head + name_bytes(stream.name, "stream name")


def _topic(topic: TopicHeader) -> bytes:
    head = _TOPIC.pack(
        topic.id,
        topic.created_at_us,
        topic.partitions_count,
        topic.message_expiry_us,
        topic.compression,
        topic.max_topic_size_bytes,
        REPLICATION_FACTOR,
        topic.size_bytes,
        topic.messages_count,
    )
    return head + name_bytes(topic.name, "topic name")


def _user(user: User) -> bytes:
    return _USER.pack(user.id, user.created_at_us, user.status) + name_bytes(user.name, "username")


def _stream_details(body: Buffer) -> bytes:
    details = StreamDetails.decode(body)
    return _stream(details.stream) + b"".join(map(_topic, details.topics))


def _topic_details(body: Buffer) -> bytes:
    details = TopicDetails.decode(body)
    partitions = bytes(body[len(body) - _PARTITION_BYTES * len(details.partitions) :])
    return _topic(details.topic) + partitions


def _user_details(body: Buffer) -> bytes:
    details = UserDetails.decode(body)
    return _user(details.user) + optional_permissions_bytes(details.permissions)


_REPLIES: Final[dict[int, Translate]] = {
    Command.GET_STREAM: _stream_details,
    Command.CREATE_STREAM: lambda body: _stream(Stream.decode(body)),
    Command.GET_STREAMS: lambda body: b"".join(map(_stream, Streams.decode(body).streams)),
    Command.GET_TOPIC: _topic_details,
    Command.CREATE_TOPIC: _topic_details,
    Command.GET_TOPICS: lambda body: b"".join(map(_topic, Topics.decode(body).topics)),
    Command.GET_USER: _user_details,
    Command.CREATE_USER: _user_details,
    Command.GET_USERS: lambda body: b"".join(map(_user, Users.decode(body).users)),
    # There is nothing in these: 0.11 says more, or says it in more bytes.
    Command.SEND_MESSAGES: lambda body: b"",
    Command.LOGOUT: lambda body: b"",
}
