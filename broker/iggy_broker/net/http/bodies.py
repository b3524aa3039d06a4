"""Bodies of requests: their shapes, and how one is read. Iggy 0.9 HTTP API.

Unknown fields are ignored (but not in a send), a field given twice is refused, absent and null are
the same where a field is optional.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from iggy_broker.net.http.problems import JSON_PREFIX, SHAPE_PREFIX
from iggy_broker.net.http.query import U32_MAX, U64_MAX

U32 = Annotated[int, Meta(ge=0, le=U32_MAX)]
U64 = Annotated[int, Meta(ge=0, extra_json_schema={"maximum": U64_MAX})]
Options = dict[str, str]
AnyOptions = dict[str, str | bool | U64]  # since 0.12, and 64-bit numbers also as text there

NESTING_MAX: Final = 120  # of arrays and objects in what is ignored


class BadBody(Exception):
    """A body that cannot be read."""

    def __init__(self, status: int, text: str) -> None:
        """`status` 400: no JSON; 422: JSON of another shape."""
        super().__init__(text)
        self.status = status
        self.text = text


class Login(Struct, frozen=True):
    """Name and password. What clients send beside it is ignored."""

    username: str
    password: str

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login(username={self.username!r})"


class TokenText(Struct, frozen=True):
    """A token to be exchanged for another one."""

    token: str

    def __repr__(self) -> str:
        """Without the token."""
        return "TokenText()"


class CreateStream(Struct, frozen=True):
    """A new stream. There are no options that it may be given yet."""

    name: str
    options: AnyOptions | None = None

    def __repr__(self) -> str:
        """Without the options: one is a key."""
        return f"CreateStream(name={self.name!r})"


class UpdateStream(Struct, frozen=True):
    """A new name. There are no options of a stream yet."""

    name: str
    options: Options | None = None


class CreateTopic(Struct, frozen=True):
    """A new topic. 0 of an expiry or size is the server's default; options by key."""

    name: str
    partitions_count: U32
    compression_algorithm: str | None = None
    message_expiry: U64 = 0
    max_topic_size: U64 = 0
    options: AnyOptions | None = None


class OriginalCreateTopic(Struct, frozen=True):
    """As the original of 0.11 reads it."""

    name: str
    partitions_count: U32
    compression_algorithm: str
    message_expiry: U64
    max_topic_size: U64
    options: Options | None = None


class UpdateTopic(Struct, frozen=True):
    """What is absent stays as it is; `reset`: options that go back to their defaults."""

    name: str | None = None
    compression_algorithm: str | None = None
    message_expiry: U64 | str | None = None
    max_topic_size: U64 | str | None = None
    options: Options | None = None
    reset: list[str] = []


class OriginalUpdateTopic(Struct, frozen=True):
    """As the original of 0.11 reads it."""

    name: str
    compression_algorithm: str | None = None
    message_expiry: U64 | None = None
    max_topic_size: U64 | None = None
    options: Options | None = None


class CreatePartitions(Struct, frozen=True):
    """So many partitions more."""

    partitions_count: U32


class Named(Struct, frozen=True):
    """A new thing with nothing but a name."""

    name: str


class PartitionContext(Struct, frozen=True):
    """Which life of a partition is meant, or was served (protocol 0.12).

    `owner_generation` is 0: over HTTP nobody is in a group. `metadata_op`: as of which change.
    """

    incarnation: U64
    owner_generation: U64
    metadata_op: U64


class StoreOffset(Struct, frozen=True):
    """A consumer has dealt with everything up to `offset`."""

    offset: U64
    consumer_id: U32 | str | None = None
    partition_id: U32 | None = None
    context: PartitionContext | None = None


class TopicFlags(Struct, frozen=True):
    """What is permitted in one topic."""

    manage_topic: bool
    read_topic: bool
    poll_messages: bool
    send_messages: bool


class StreamFlags(Struct, frozen=True):
    """What is permitted in one stream; topics by id."""

    manage_stream: bool
    read_stream: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
    topics: dict[U32, TopicFlags] | None = None


class GlobalFlags(Struct, frozen=True):
    """What is permitted everywhere."""

    manage_servers: bool
    read_servers: bool
    manage_users: bool
    read_users: bool
    manage_streams: bool
    read_streams: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool


class Permissions(Struct, frozen=True, rename={"everywhere": "global"}):
    """All permissions of a user; streams by id."""

    everywhere: GlobalFlags
    streams: dict[U32, StreamFlags] | None = None


class CreateUser(Struct, frozen=True):
    """A new user. There are no options that it may be given yet."""

    username: str
    password: str
    status: str
    permissions: Permissions | None = None
    options: AnyOptions | None = None

    def __repr__(self) -> str:
        """Without the password."""
        return f"CreateUser(username={self.username!r})"


class UpdateUser(Struct, frozen=True):
    """Another name, another status, both or neither."""

    username: str | None = None
    status: str | None = None
    options: Options | None = None


class ChangePassword(Struct, frozen=True):
    """A new password for who knows the current one."""

    current_password: str
    new_password: str

    def __repr__(self) -> str:
        """Without the passwords."""
        return "ChangePassword()"


class UpdatePermissions(Struct, frozen=True):
    """All permissions anew; null or absent takes them away."""

    permissions: Permissions | None = None


class CreateToken(Struct, frozen=True):
    """A personal access token; `expiry` in µs from now, 0 or 2^64-1 for never."""

    name: str
    expiry: U64


class Snapshot(Struct, frozen=True):
    """Which files of the support bundle, and how they are packed."""

    compression: str
    snapshot_types: list[str]


class Tagged(Struct, frozen=True):
    """Key or value of a user header: base64 of the bytes of this kind."""

    kind: str
    value: bytes


class UserHeader(Struct, frozen=True):
    """One user header."""

    key: Tagged
    value: Tagged


class Partitioning(Struct, frozen=True):
    """Who picks the partition: balanced, partition_id (4 bytes, little-endian), messages_key."""

    kind: str
    value: bytes


class Message(Struct, frozen=True, gc=False):
    """One message. An id is a u64, or text: a decimal u128 or a UUID; 0 asks for a random one."""

    payload: bytes
    id: int | str | UnsetType | None = UNSET
    user_headers: list[UserHeader] | bytes | UnsetType | None = UNSET


class OriginalSendMessages(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for one topic, as the original of 0.11 reads them."""

    partitioning: Partitioning
    messages: list[Message]


class SendMessages(OriginalSendMessages, frozen=True, forbid_unknown_fields=True):
    """The same; with a context only for that life of the partition."""

    context: PartitionContext | UnsetType | None = UNSET


_DECODERS: Final[dict[type[Struct], msgspec.json.Decoder[Any]]] = {}


def decode(body: bytes, shape: type[Struct]) -> Any:
    """The value of this body. Raises BadBody; the text says what is wrong where."""
    decoder = _DECODERS.get(shape)
    if decoder is None:
        decoder = _DECODERS[shape] = msgspec.json.Decoder(shape)
    try:
        value = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadBody(422, f"{SHAPE_PREFIX}{error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBody(400, f"{JSON_PREFIX}{error}") from None
    except RecursionError:
        raise BadBody(400, f"{JSON_PREFIX}recursion limit exceeded") from None
    _check_numbers(value)
    if not isinstance(value, OriginalSendMessages) or not _has_each_key_once(body, value):
        check_keys(body)
    return value


def wrong_shape(text: str) -> BadBody:
    """A value that JSON types cannot refuse: an unknown word, a number out of range."""
    return BadBody(422, f"{SHAPE_PREFIX}{text}")


def check_keys(body: bytes) -> None:
    """Refuse a key that one object has twice. The standard library tells; slow, so not for all."""
    try:
        json.loads(body, object_pairs_hook=_unique)
    except RecursionError:
        raise BadBody(400, f"{JSON_PREFIX}recursion limit exceeded") from None


def _unique(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise wrong_shape(f"duplicate field `{twice}`")


def _check_numbers(value: Any) -> None:
    """The upper end of u64, which the decoder cannot compare."""
    for name in ("message_expiry", "max_topic_size", "offset", "expiry"):
        given = getattr(value, name, None)
        if isinstance(given, int) and given > U64_MAX:
            raise wrong_shape(f"invalid value of `{name}`: write at most {U64_MAX}")


def _has_each_key_once(body: bytes, send: OriginalSendMessages) -> bool:
    """Whether a send has no key twice, by counting quotes; False: look more closely.

    Without a backslash, quotes stand around keys and texts only, and what was decoded says how many
    of both there must be. A key more, known or not, makes them more.
    """
    texts = 2 + 4  # the two keys of the whole, keys and values of the partitioning
    if isinstance(send, SendMessages) and send.context is not UNSET:
        texts += 1 if send.context is None else 1 + len(PartitionContext.__struct_fields__)
    for one in send.messages:
        texts += 2
        if one.id is not UNSET:
            texts += 1 + isinstance(one.id, str)
        headers = one.user_headers
        if headers is not UNSET:
            texts += 1 + isinstance(headers, bytes)
            if isinstance(headers, list):
                texts += 10 * len(headers)
    return b"\\" not in body and body.count(b'"') == 2 * texts
