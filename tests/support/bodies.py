"""Hypothesis strategies for every request and reply body, made from the fields of their classes."""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from iggy_wire import replies, replies_p12, requests_waiting
from iggy_wire.dialect import DIALECTS
from iggy_wire.options import Option, ValueKind
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from iggy_wire.primitives import (
    AckLevel,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingStrategy,
    StrategyKind,
)
from iggy_wire.reply_base import EmptyReply, Reply
from iggy_wire.request_base import Request
from iggy_wire.requests_p12 import SECRET_BYTES, Scope, UpdateResource

U8 = st.integers(0, (1 << 8) - 1)
U16 = st.integers(0, (1 << 16) - 1)
U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
F32 = st.floats(width=32, allow_nan=False)
BYTES = st.binary(max_size=64)
# 63 characters of at most 4 bytes: 1 to 252 bytes
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=63)

_LONG = """
    memory_usage total_memory available_memory run_time_us start_time_us read_bytes written_bytes
    messages_size_bytes free_disk_space total_disk_space hits misses session created_at_us
    size_bytes message_expiry_us max_topic_size_bytes current_offset stored_offset base_offset
    offset generation expiry_us expires_at_us incarnation owner_generation metadata_op
    metadata_watermark open_files open_files_max
"""
WIDTHS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("status", "compression", "transport", "scope", "role"), U8),
    **dict.fromkeys(("flags", "node_id"), U8),
    **dict.fromkeys(("tcp_port", "quic_port", "http_port", "websocket_port"), U16),
    **dict.fromkeys(("cpu_usage", "total_cpu_usage", "hit_ratio"), F32),
    **{name: U64 for name in _LONG.split()},  # noqa: C420 -- one strategy for all
}
IDENTIFIERS = st.one_of(U32, NAMES).map(Identifier)
CONSUMERS = st.builds(Consumer, st.sampled_from(ConsumerKind), IDENTIFIERS)
PARTITIONINGS = st.one_of(
    st.just(Partitioning.balanced()),
    U32.map(Partitioning.partition),
    st.binary(min_size=1, max_size=255).map(Partitioning.key),
)
STRATEGIES = st.builds(PollingStrategy, st.sampled_from(StrategyKind), U64)
OPTIONS = st.lists(
    st.builds(Option, NAMES, st.sampled_from(ValueKind), st.binary(min_size=1, max_size=255)),
    max_size=4,
    unique_by=lambda option: option.key,
).map(tuple)
FLAGS = st.booleans()
TOPIC_PERMISSIONS = st.builds(TopicPermissions, U32, FLAGS, FLAGS, FLAGS, FLAGS)
STREAM_PERMISSIONS = st.builds(
    StreamPermissions,
    U32,
    *[FLAGS] * 6,
    topics=st.lists(TOPIC_PERMISSIONS, max_size=2).map(tuple),
)
PERMISSIONS = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[FLAGS] * 10),
    st.lists(STREAM_PERMISSIONS, max_size=2).map(tuple),
)

BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    **WIDTHS,
    "kind": U8,
    "default": BYTES,
    "permissions": st.none() | PERMISSIONS,
    "partition_id": U32,
    "consumer": CONSUMERS,
    "partitioning": PARTITIONINGS,
    "strategy": STRATEGIES,
    "ack": st.sampled_from(AckLevel),
    "batch": BYTES,
    "data": BYTES,
    "types": st.lists(U8, max_size=4).map(tuple),
    "region": BYTES,
    "bind_secret": st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES),
}
OF_BYTES: dict[str, st.SearchStrategy[Any]] = {
    "client": st.binary(min_size=16, max_size=16),
    "nodes": BYTES,
    "in_sync": BYTES,
}
BY_KIND: dict[Any, st.SearchStrategy[Any]] = {
    tuple[Option, ...]: OPTIONS,
    Identifier: IDENTIFIERS,
    bool: FLAGS,
    int: U32,
    str: NAMES,
}
# Where a reply says how many follow, and under which name in which part.
COUNTED = {
    "StreamDetails": ("stream", "topics_count", "topics"),
    "PlacedTopicDetails": ("topic", "partitions_count", "partitions"),
    "TopicDetails": ("topic", "partitions_count", "partitions"),
    "GroupDetails": ("group", "members_count", "members"),
    "ClientDetails": ("client", "groups_count", "groups"),
}
REQUEST_TYPES: list[type[Request]] = sorted(
    {
        request
        for dialect in DIALECTS
        for request in dialect.requests.values()
        if request.__module__ != requests_waiting.__name__  # limits: see test_waiting
    },
    key=lambda one: (one.__name__, one.__module__),
)
REPLY_TYPES: list[type[Reply]] = sorted(
    {
        one
        for module in (replies, replies_p12)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Reply) and one not in (Reply, EmptyReply)
    },
    key=lambda one: (one.__name__, one.__module__),
)


@st.composite
def _updates(draw: st.DrawFn) -> UpdateResource:
    scope = draw(st.sampled_from(Scope))
    length = 2 if scope is Scope.TOPIC else 1
    target = draw(st.lists(IDENTIFIERS, min_size=length, max_size=length))
    options = draw(OPTIONS.filter(bool))
    given = {option.key for option in options}
    resets = draw(st.lists(NAMES.filter(lambda key: key not in given), max_size=3, unique=True))
    return UpdateResource(scope, tuple(target), tuple(resets), options)


UPDATES = _updates()


def bodies(layout: type[Request] | type[Reply]) -> st.SearchStrategy[Any]:
    """Values of this class that encode."""
    values = UPDATES if layout is UpdateResource else _values(layout)
    if layout.__name__ in COUNTED:
        return values.map(lambda value: _counted(value, *COUNTED[layout.__name__]))
    return values


def _counted(value: Any, part: str, count: str, items: str) -> Any:
    counted = msgspec.structs.replace(getattr(value, part), **{count: len(getattr(value, items))})
    return msgspec.structs.replace(value, **{part: counted})


def _values(layout: Any) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(layout)
    return st.builds(layout, **{field.name: _field(layout, field) for field in fields})


def _field(layout: Any, field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    kind, name = field.type, field.name
    if name == "messages_count" and issubclass(layout, Reply):
        return U64
    if kind in (str | None, int | None):
        return st.none() | (BY_NAME[name] if name in BY_NAME else BY_KIND[kind.__args__[0]])
    named = {**BY_NAME, **OF_BYTES} if kind is bytes else BY_NAME
    if kind in BY_KIND and name not in named:
        return BY_KIND[kind]
    if name in named:
        return named[name]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _values(kind)
    (item, _) = kind.__args__  # a tuple of any length
    items = BY_KIND[item] if item in BY_KIND else _values(item)
    return st.lists(items, max_size=3).map(tuple)


def truncations(body: bytes) -> Sequence[bytes]:
    """The body without its last byte, without its last two, down to nothing."""
    return [body[:length] for length in range(len(body))]
