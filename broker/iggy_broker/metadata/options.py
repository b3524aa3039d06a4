"""The options of a topic: which there are, what is legal, and what is in force. Pure.

A value that the client did not send follows the node's configuration, so that switching
`enforce_fsync` on and restarting changes existing topics. Two are frozen when the topic is made
(`model.Defaults`): whether old messages go must not change behind the back of a topic. What was
sent is stored and reported in the kind of its key: `128 MiB` comes back as 134217728.

Keys, kinds and bounds: Iggy protocol 0.11, options. Its older half knows `enforce_fsync`, its newer
half `durability` and `consumer_offset_durability` (the 0.9.0 clients always send both); we take
all three. Where they disagree the safer one wins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from iggy_broker import config_values as values
from iggy_broker.config_data import SYNC_BYTES_DEFAULT
from iggy_broker.config_sections import Config
from iggy_broker.config_values import SERVER_DEFAULT, UNLIMITED
from iggy_broker.errors import Deny
from iggy_broker.metadata.model import Defaults, Topic
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.options import Option, Options, Value, ValueKind, make_options

SEGMENT_BYTES_MIN: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 1 << 30
SEGMENT_BYTES_STEP: Final = 512
SAVE_MESSAGES_MAX: Final = 16 << 20
SAVE_BYTES_MAX: Final = 1 << 30
REMEMBERED_MAX: Final = 1024  # different sets of options whose parsing is remembered
PREALLOCATED_BYTES_MAX: Final = 64 << 30  # segment_size times partitions

REPLICATED: Final = "replicated"
PERSISTED: Final = "persisted"
FIXED: Final = "fixed"
COMPRESSION_CODES: Final = {"none": 1, "gzip": 2}


class TopicSettings(msgspec.Struct, frozen=True):
    """What is in force for a topic: its own options over the node's configuration."""

    compression_algorithm: str
    message_expiry_us: int  # UNLIMITED: never
    max_topic_size_bytes: int  # UNLIMITED: no limit
    segment_size_bytes: int
    durability: str
    consumer_offset_durability: str
    enforce_fsync: bool
    messages_required_to_save: int
    size_of_messages_required_to_save_bytes: int
    preallocate_segments: bool
    partition_resize_policy: str = "mutable"

    @property
    def persisted(self) -> bool:
        """Whether every send waits for a sync."""
        each_message = self.enforce_fsync and self.messages_required_to_save == 1
        return self.durability == PERSISTED or each_message

    @property
    def offsets_persisted(self) -> bool:
        """Whether every stored consumer offset waits for a sync."""
        return self.consumer_offset_durability == PERSISTED or self.enforce_fsync

    @property
    def sync_messages(self) -> int | None:
        """The send that leaves so many messages unsynced waits for a sync; None: no send does."""
        return self.messages_required_to_save if self.enforce_fsync else None

    @property
    def sync_bytes(self) -> int | None:
        """The same in bytes."""
        return self.size_of_messages_required_to_save_bytes if self.enforce_fsync else None


@dataclass(frozen=True, slots=True)
class Known:
    """One option of the catalogue."""

    key: str
    kind: ValueKind
    field: str  # of TopicSettings
    parse: Callable[[object], Any]  # from text or a value of the kind; ValueError says the fix
    updatable: bool
    doc: str


def _expiry(value: object) -> int:
    # A number is in microseconds, unlike in the configuration, where one without unit is refused.
    return value if isinstance(value, int) else values.expiry(value)


def _segment_size(value: object) -> int:
    size_bytes = values.size(value)
    in_range = SEGMENT_BYTES_MIN <= size_bytes <= SEGMENT_BYTES_MAX
    if not in_range or size_bytes % SEGMENT_BYTES_STEP:
        raise ValueError("write a multiple of 512 bytes from 1 MiB to 1 GiB")
    return size_bytes


def _save_size(value: object) -> int:
    size_bytes = values.size(value)
    if size_bytes > SAVE_BYTES_MAX:
        raise ValueError("write at most 1 GiB; 0 is the default")
    return size_bytes


_durability = values.choice(REPLICATED, PERSISTED)

CATALOGUE: Final = (
    Known(
        "compression_algorithm",
        ValueKind.STRING,
        "compression_algorithm",
        values.choice(*COMPRESSION_CODES),
        updatable=True,
        doc="How clients compress payloads: none or gzip. The server does not touch them.",
    ),
    Known(
        "message_expiry",
        ValueKind.UINT64,
        "message_expiry_us",
        _expiry,
        updatable=True,
        doc="Age in microseconds, or like 7 days, at which messages may be removed.",
    ),
    Known(
        "max_topic_size",
        ValueKind.UINT64,
        "max_topic_size_bytes",
        values.topic_size,
        updatable=True,
        doc="Size in bytes, or like 10 GiB, at which the oldest messages may be removed.",
    ),
    Known(
        "segment_size",
        ValueKind.UINT64,
        "segment_size_bytes",
        _segment_size,
        updatable=False,
        doc="Size of a segment file: a multiple of 512 bytes from 1 MiB to 1 GiB.",
    ),
    Known(
        "durability",
        ValueKind.STRING,
        "durability",
        _durability,
        updatable=False,
        doc="When a send is acknowledged: replicated (survives the process) or persisted (synced).",
    ),
    Known(
        "consumer_offset_durability",
        ValueKind.STRING,
        "consumer_offset_durability",
        _durability,
        updatable=False,
        doc="The same for stored consumer offsets.",
    ),
    Known(
        "enforce_fsync",
        ValueKind.BOOL,
        "enforce_fsync",
        values.boolean,
        updatable=False,
        doc="Sync before the acknowledgement when one of the two thresholds below is reached.",
    ),
    Known(
        "messages_required_to_save",
        ValueKind.UINT32,
        "messages_required_to_save",
        values.whole(1, SAVE_MESSAGES_MAX),
        updatable=False,
        doc="Unsynced messages that make a sync due, 1 to 16777216.",
    ),
    Known(
        "size_of_messages_required_to_save",
        ValueKind.UINT64,
        "size_of_messages_required_to_save_bytes",
        _save_size,
        updatable=False,
        doc="Unsynced bytes that make a sync due, at most 1 GiB; 0 is the default.",
    ),
    Known(
        "preallocate_segments",
        ValueKind.BOOL,
        "preallocate_segments",
        values.boolean,
        updatable=False,
        doc="Reserve the space of a segment when it is opened.",
    ),
)

_RESIZE_POLICY: Final = Known(
    "partition_resize_policy",
    ValueKind.STRING,
    "partition_resize_policy",
    values.choice("mutable", FIXED),
    updatable=False,
    doc="Whether partitions may be added and deleted later: mutable, or fixed.",
)
_BY_KEY: Final = {known.key: known for known in (*CATALOGUE, _RESIZE_POLICY)}
P12_CATALOGUE: Final = tuple(
    _BY_KEY[key]
    for key in (
        "compression_algorithm",
        "message_expiry",
        "max_topic_size",
        "segment_size",
        "durability",
        "consumer_offset_durability",
        "partition_resize_policy",
        "messages_required_to_save",
        "size_of_messages_required_to_save",
        "preallocate_segments",
    )
)
"""Those that clients of protocol 0.12 are told of, in its order."""
_ZERO_IS_ABSENT: Final = frozenset({"message_expiry", "max_topic_size"})


def node_settings(config: Config) -> TopicSettings:
    """What holds for a topic without options."""
    system = config.system
    return TopicSettings(
        compression_algorithm="none",
        message_expiry_us=system.segment.message_expiry_us or UNLIMITED,
        max_topic_size_bytes=system.topic.max_size_bytes or UNLIMITED,
        segment_size_bytes=system.segment.size_bytes,
        durability=REPLICATED,
        consumer_offset_durability=REPLICATED,
        enforce_fsync=system.partition.enforce_fsync,
        messages_required_to_save=system.partition.messages_required_to_save,
        size_of_messages_required_to_save_bytes=(
            system.partition.size_of_messages_required_to_save_bytes or SYNC_BYTES_DEFAULT
        ),
        preallocate_segments=False,
    )


def defaults_of(node: TopicSettings) -> Defaults:
    """What is frozen for a topic that is made now."""
    return Defaults(node.message_expiry_us, node.max_topic_size_bytes)


def settings_of_topic(topic: Topic, node: TopicSettings) -> TopicSettings:
    """What is in force for a topic."""
    return settings_of(topic.options, node, topic.defaults)


def save_messages(topic: Topic, settings: TopicSettings) -> int | None:
    """How many unsynced messages begin a sync that no send waits for; None: the saver's pass does.

    Only a topic asks for that, and only one whose sends never wait. A node's number is for
    `enforce_fsync`: it would make every topic sync that nobody wants on the disk soon.
    """
    is_asked = any(option.key == "messages_required_to_save" for option in topic.options)
    waits = settings.persisted or settings.enforce_fsync
    return settings.messages_required_to_save if is_asked and not waits else None


@functools.lru_cache(maxsize=REMEMBERED_MAX)
def settings_of(
    options: Options, node: TopicSettings, defaults: Defaults | None = None
) -> TopicSettings:
    """What is in force with these (checked) options, over these frozen defaults."""
    if defaults is not None:
        node = msgspec.structs.replace(
            node,
            message_expiry_us=defaults.message_expiry_us,
            max_topic_size_bytes=defaults.max_topic_size_bytes,
        )
    given = {_BY_KEY[option.key].field: _parsed(option) for option in options}
    if given.get("size_of_messages_required_to_save_bytes") == SERVER_DEFAULT:
        del given["size_of_messages_required_to_save_bytes"]
    # A node that enforces syncs does so for every topic: clients cannot opt out by accident.
    given["enforce_fsync"] = node.enforce_fsync or bool(given.get("enforce_fsync"))
    return msgspec.structs.replace(node, **given)


@functools.lru_cache(maxsize=REMEMBERED_MAX)
def derived(
    options: Options, settings: TopicSettings, catalogue: tuple[Known, ...] = CATALOGUE
) -> Options:
    """The values in force for every key of the catalogue that was not given."""
    given = {option.key for option in options}
    effective = {known.key: getattr(settings, known.field) for known in catalogue}
    effective["durability"] = PERSISTED if settings.persisted else REPLICATED
    effective["consumer_offset_durability"] = (
        PERSISTED if settings.offsets_persisted else REPLICATED
    )
    return make_options({key: value for key, value in effective.items() if key not in given})


def check_create(
    options: Options,
    node: TopicSettings,
    *,
    partitions_count: int,
    catalogue: tuple[Known, ...] = CATALOGUE,
) -> Options:
    """The options to store with a new topic, in order of their keys.

    Deny: UNSUPPORTED_OPTION_KEY, INVALID_OPTION_VALUE (with the key and the fix), or
    INVALID_TOPIC_SIZE for a size limit below one segment.
    """
    kept = _check(options, catalogue, updating=False)
    settings = settings_of(kept, node)
    _check_topic_size(kept, settings)
    preallocated_bytes = settings.segment_size_bytes * partitions_count
    if settings.preallocate_segments and preallocated_bytes > PREALLOCATED_BYTES_MAX:
        detail = f"preallocate_segments: {partitions_count} segments are more than 64 GiB"
        raise Deny(ErrorCode.INVALID_OPTION_VALUE, detail)
    return kept


def check_update(options: Options, present: Options, node: TopicSettings) -> Options:
    """The options to lay over those of a topic; refusals as for `check_create`."""
    kept = _check(options, CATALOGUE, updating=True)
    _check_topic_size(kept, settings_of(present, node))
    return kept


def refuse_any(options: Options, scope: str) -> None:
    """Deny: streams and users have no options in protocol 0.11."""
    if options:
        detail = f"option {options[0].key!r}: a {scope} has no options"
        raise Deny(ErrorCode.UNSUPPORTED_OPTION_KEY, detail)


def _check(options: Options, catalogue: tuple[Known, ...], *, updating: bool) -> Options:
    kept = []
    for option in options:
        known = _BY_KEY.get(option.key)
        if known not in catalogue or (updating and not known.updatable):
            legal = ", ".join(one.key for one in catalogue if one.updatable or not updating)
            detail = f"option {option.key!r}: use one of {legal}"
            raise Deny(ErrorCode.UNSUPPORTED_OPTION_KEY, detail)
        value = _parsed(option)
        if value != SERVER_DEFAULT or option.key not in _ZERO_IS_ABSENT:
            kept.append(Option.of(option.key, value, known.kind))
    return make_options(kept)


def _check_topic_size(options: Options, settings: TopicSettings) -> None:
    """The limit that `options` ask for against the segment size that `settings` have."""
    asked = next((_parsed(option) for option in options if option.key == "max_topic_size"), None)
    if asked is not None and asked != UNLIMITED and asked < settings.segment_size_bytes:
        detail = (
            f"max_topic_size {asked}: write at least one segment, {settings.segment_size_bytes}"
        )
        raise Deny(ErrorCode.INVALID_TOPIC_SIZE, detail)


def _parsed(option: Option) -> Any:
    """The value of a known option; Deny if its kind or content is not legal."""
    known = _BY_KEY[option.key]
    try:
        return known.parse(_readable(option, known))
    except (ValueError, WireError) as error:
        raise Deny(ErrorCode.INVALID_OPTION_VALUE, f"option {option.key}: {error}") from None


def _readable(option: Option, known: Known) -> Value:
    if option.kind not in (known.kind, ValueKind.STRING):
        kind = known.kind.name.lower()
        raise ValueError(f"write the value as {kind} or as text, not as kind {option.kind}")
    return option.get()
