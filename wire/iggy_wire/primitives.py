"""The small values that many commands share: who reads, from where, into what."""

from enum import IntEnum
from struct import Struct
from typing import Final, Self, TypeAlias

import msgspec
import xxhash

from iggy_wire.cursor import Reader, name_bytes, u32_bytes, u64_bytes
from iggy_wire.errors import ErrorCode, WireError

# Sentinels of Iggy protocol 0.11. In a request an expiry or size of 0 means the server's default.
EXPIRY_NEVER: Final = (1 << 64) - 1
SIZE_UNLIMITED: Final = (1 << 64) - 1
# A poll reply for a group member that does not own the partition: sync the group again.
PARTITION_NOT_OWNED: Final = 0xFFFFFFFF
USER_NOT_LOGGED_IN: Final = 0xFFFFFFFF

_KEY_BYTES_MAX: Final = 255
_ID_BYTES: Final = 4
_NUMERIC, _TEXT = 1, 2
_STRATEGY: Final = Struct("<BQ")
_PARTITION: Final = Struct("<BI")


class Identifier(msgspec.Struct, frozen=True, gc=False):
    """A resource by number or by name. A name is only ever looked up as a name, even "12"."""

    value: int | str

    @classmethod
    def of(cls, value: "IdentifierLike") -> "Identifier":
        """An identifier as it is; a number or a name becomes one."""
        return value if isinstance(value, Identifier) else Identifier(value)

    @property
    def kind(self) -> int:
        """1 numeric, 2 by name."""
        return _NUMERIC if isinstance(self.value, int) else _TEXT

    def encode(self) -> bytes:
        """Kind, length, value."""
        if isinstance(self.value, int):
            return b"\x01\x04" + u32_bytes(self.value, "identifier")
        return b"\x02" + name_bytes(self.value, "identifier")

    @classmethod
    def read(cls, reader: Reader, field: str = "identifier") -> "Identifier":
        """Take an identifier off `reader`; `field` says of what, for the error."""
        kind = reader.u8(f"kind of {field}")
        if kind == _TEXT:
            return cls(reader.name(field))
        if kind != _NUMERIC:
            reader.fail(f"kind of {field}: must be 1 (number) or 2 (name), is {kind}")
        length = reader.u8(f"length of {field}")
        if length != _ID_BYTES:
            reader.fail(f"length of {field}: must be {_ID_BYTES} for a number, is {length}")
        return cls(reader.u32(field))

    def __str__(self) -> str:
        """The number or the name."""
        return str(self.value)


IdentifierLike: TypeAlias = Identifier | int | str


class ConsumerKind(IntEnum):
    """Whose offset is meant."""

    CONSUMER = 1
    GROUP = 2


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """A plain consumer, or a consumer group, by number or name."""

    kind: ConsumerKind
    id: Identifier

    @classmethod
    def plain(cls, value: IdentifierLike) -> "Consumer":
        """A consumer outside of any group."""
        return cls(ConsumerKind.CONSUMER, Identifier.of(value))

    @classmethod
    def group(cls, value: IdentifierLike) -> "Consumer":
        """A consumer group."""
        return cls(ConsumerKind.GROUP, Identifier.of(value))

    @property
    def number(self) -> int:
        """Under which number a plain consumer's offset is kept: its own, or XXH32 of its name."""
        value = self.id.value
        return value if isinstance(value, int) else xxhash.xxh32_intdigest(value.encode())

    def encode(self) -> bytes:
        """Kind, identifier."""
        return bytes((self.kind,)) + self.id.encode()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take a consumer off `reader`."""
        kind = reader.u8("consumer kind")
        if kind not in (ConsumerKind.CONSUMER, ConsumerKind.GROUP):
            reader.fail(f"consumer kind: must be 1 (consumer) or 2 (group), is {kind}")
        return cls(ConsumerKind(kind), Identifier.read(reader, "consumer"))


class PartitioningKind(IntEnum):
    """Who picks the partition of a send, and how."""

    BALANCED = 1
    PARTITION = 2
    KEY = 3


class Partitioning(msgspec.Struct, frozen=True, gc=False):
    """Where a batch goes: the server's round robin, a partition, or the hash of a key."""

    kind: PartitioningKind
    value: bytes = b""

    @classmethod
    def balanced(cls) -> "Partitioning":
        """The server takes the topic's partitions in turn."""
        return cls(PartitioningKind.BALANCED)

    @classmethod
    def partition(cls, partition_id: int) -> "Partitioning":
        """This partition."""
        return cls(PartitioningKind.PARTITION, u32_bytes(partition_id, "partition"))

    @classmethod
    def key(cls, key: bytes | str) -> "Partitioning":
        """The partition that this key (1 to 255 bytes) always goes to."""
        value = key.encode() if isinstance(key, str) else key
        if not 1 <= len(value) <= _KEY_BYTES_MAX:
            detail = f"message key: must have 1 to {_KEY_BYTES_MAX} bytes, has {len(value)}"
            raise WireError(ErrorCode.INVALID_KEY_VALUE_LENGTH, detail)
        return cls(PartitioningKind.KEY, value)

    @property
    def partition_id(self) -> int:
        """The partition of kind `PARTITION`."""
        return int.from_bytes(self.value, "little")

    def encode(self) -> bytes:
        """Kind, length, value."""
        return bytes((self.kind, len(self.value))) + self.value

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take a partitioning off `reader`."""
        kind = reader.u8("partitioning kind")
        length = reader.u8("partitioning length")
        wanted = {
            PartitioningKind.BALANCED: length == 0,
            PartitioningKind.PARTITION: length == _ID_BYTES,
            PartitioningKind.KEY: length > 0,
        }
        if kind not in wanted:
            reader.fail(f"partitioning kind: must be 1, 2 or 3, is {kind}")
        if not wanted[PartitioningKind(kind)]:
            reader.fail(f"partitioning length: {length} does not fit kind {kind}")
        return cls(PartitioningKind(kind), bytes(reader.take(length, "partitioning")))


def partition_of_key(key: bytes, partitions_count: int) -> int:
    """The partition of a message key: XXH32 with seed 0, as every Iggy client and server does."""
    return xxhash.xxh32_intdigest(key) % partitions_count


class StrategyKind(IntEnum):
    """Where a poll starts."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


class PollingStrategy(msgspec.Struct, frozen=True, gc=False):
    """Where a poll starts. `value` is an offset, or a timestamp in microseconds, else 0."""

    kind: StrategyKind
    value: int = 0

    @classmethod
    def offset(cls, offset: int) -> "PollingStrategy":
        """At this offset."""
        return cls(StrategyKind.OFFSET, offset)

    @classmethod
    def timestamp(cls, timestamp_us: int) -> "PollingStrategy":
        """At the first batch that was appended at or after this time."""
        return cls(StrategyKind.TIMESTAMP, timestamp_us)

    @classmethod
    def first(cls) -> "PollingStrategy":
        """At the oldest message that is kept."""
        return cls(StrategyKind.FIRST)

    @classmethod
    def last(cls) -> "PollingStrategy":
        """So that the newest `count` messages come."""
        return cls(StrategyKind.LAST)

    @classmethod
    def next(cls) -> "PollingStrategy":
        """Behind the stored offset of the consumer."""
        return cls(StrategyKind.NEXT)

    def encode(self) -> bytes:
        """Nine bytes."""
        return bytes((self.kind,)) + u64_bytes(self.value, "polling strategy")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take a strategy off `reader`."""
        kind, value = reader.unpack(_STRATEGY, "polling strategy")
        return cls(strategy_kind(kind, reader), value)


def strategy_kind(kind: int, reader: Reader) -> StrategyKind:
    """The strategy of this number, refused in the name of `reader`."""
    if not StrategyKind.OFFSET <= kind <= StrategyKind.NEXT:
        reader.fail(f"polling strategy: kind must be 1 to 5, is {kind}")
    return _STRATEGIES[kind]


_STRATEGIES: Final[dict[int, StrategyKind]] = {kind: kind for kind in StrategyKind}


class AckLevel(IntEnum):
    """When a stored offset is answered."""

    NONE = 0
    QUORUM = 1


def read_ack(reader: Reader) -> AckLevel:
    """Take an ack level off `reader`."""
    level = reader.u8("ack level")
    if level > AckLevel.QUORUM:
        reader.fail(f"ack level: must be 0 (none) or 1 (quorum), is {level}")
    return AckLevel(level)


def partition_bytes(partition_id: int | None) -> bytes:
    """An optional partition: flag and number."""
    if partition_id is None:
        return bytes(5)
    return b"\x01" + u32_bytes(partition_id, "partition")


def read_partition(reader: Reader) -> int | None:
    """Take an optional partition off `reader`."""
    flag, partition_id = reader.unpack(_PARTITION, "partition")
    if flag > 1:
        reader.fail(f"partition flag: must be 0 or 1, is {flag}")
    return partition_id if flag else None
