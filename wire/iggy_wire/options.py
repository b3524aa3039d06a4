"""Tagged pairs: the layout that user headers of messages and option blocks of resources share.

`pair := key kind u8, key length u32, key, value kind u8, value length u32, value`, without a count
in front (Iggy protocol 0.11, tagged key/value list). A block keeps the order it came in; blocks
that we make are in ascending order of their keys.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader, u32_bytes
from iggy_wire.errors import ErrorCode, WireError

OPTIONS_COUNT_MAX: Final = 1024
OPTIONS_BYTES_MAX: Final = 100_000
_ITEM_BYTES_MAX: Final = 255
_PAIR_BYTES_MIN: Final = 12


class ValueKind(IntEnum):
    """How the bytes of a key or value are meant."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


Value: TypeAlias = bool | int | float | str | bytes

_INTEGERS: Final[dict[int, tuple[int, bool]]] = {
    ValueKind.INT8: (1, True),
    ValueKind.INT16: (2, True),
    ValueKind.INT32: (4, True),
    ValueKind.INT64: (8, True),
    ValueKind.INT128: (16, True),
    ValueKind.UINT8: (1, False),
    ValueKind.UINT16: (2, False),
    ValueKind.UINT32: (4, False),
    ValueKind.UINT64: (8, False),
    ValueKind.UINT128: (16, False),
}
_FLOATS: Final[dict[int, str]] = {ValueKind.FLOAT32: "<f", ValueKind.FLOAT64: "<d"}

# The options of a topic and the kinds of their values (Iggy protocol 0.11). `enforce_fsync` is the
# older name of one durability; servers of both generations are out there.
TOPIC_OPTION_KINDS: Final[dict[str, ValueKind]] = {
    "compression_algorithm": ValueKind.STRING,
    "consumer_offset_durability": ValueKind.STRING,
    "durability": ValueKind.STRING,
    "enforce_fsync": ValueKind.BOOL,
    "max_topic_size": ValueKind.UINT64,
    "message_expiry": ValueKind.UINT64,
    "messages_required_to_save": ValueKind.UINT32,
    "preallocate_segments": ValueKind.BOOL,
    "segment_size": ValueKind.UINT64,
    "size_of_messages_required_to_save": ValueKind.UINT64,
}


class Option(msgspec.Struct, frozen=True, gc=False):
    """One option: its key, and its value as it travels."""

    key: str
    kind: int
    value: bytes

    @classmethod
    def of(cls, key: str, value: Value, kind: ValueKind | None = None) -> "Option":
        """An option from a Python value; without `kind` the topic option's own, else by type."""
        if isinstance(value, str):
            kind = ValueKind.STRING
        chosen = kind or TOPIC_OPTION_KINDS.get(key) or _kind_of(value)
        return cls(key, chosen, _value_bytes(key, value, chosen))

    def get(self) -> Value:
        """The value as a Python value. Raises `INVALID_OPTION_VALUE` if kind and bytes disagree."""
        kind, raw = self.kind, self.value
        if kind in _INTEGERS and len(raw) == _INTEGERS[kind][0]:
            return int.from_bytes(raw, "little", signed=_INTEGERS[kind][1])
        if kind in _FLOATS and len(raw) == struct.calcsize(_FLOATS[kind]):
            number: float = struct.unpack(_FLOATS[kind], raw)[0]
            return number
        if kind == ValueKind.BOOL and raw in (b"\x00", b"\x01"):
            return raw == b"\x01"
        if kind == ValueKind.RAW:
            return raw
        if kind == ValueKind.STRING:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                pass
        detail = f"option {self.key}: {len(raw)} bytes do not make a value of kind {kind}"
        raise WireError(ErrorCode.INVALID_OPTION_VALUE, detail)


Options: TypeAlias = tuple[Option, ...]


def make_options(values: Mapping[str, Value] | Iterable[Option]) -> Options:
    """A block in ascending order of its keys, from a mapping or from ready options."""
    if isinstance(values, Mapping):
        values = [Option.of(key, value) for key, value in values.items()]
    return tuple(sorted(values, key=lambda option: option.key.encode()))


def options_bytes(options: Options) -> bytes:
    """A block without a length in front, as requests end with it."""
    return b"".join(
        pair_bytes(ValueKind.STRING, option.key.encode(), option.kind, option.value)
        for option in options
    )


def options32_bytes(options: Options) -> bytes:
    """A block behind its length in bytes, as replies carry it."""
    block = options_bytes(options)
    return u32_bytes(len(block), "options") + block


def read_options(reader: Reader) -> Options:
    """Take the rest of `reader` as a block. Too large: `OPTIONS_BLOCK_TOO_LARGE`."""
    return decode_options(reader.rest(), reader.code)


def read_options32(reader: Reader) -> Options:
    """Take a block behind its length off `reader`."""
    return decode_options(reader.take(reader.u32("options length"), "options"), reader.code)


def decode_options(block: Buffer, code: ErrorCode = ErrorCode.INVALID_COMMAND) -> Options:
    """A block that must end where `block` ends. Keys are texts and none comes twice."""
    if not block:
        return ()
    if len(block) > OPTIONS_BYTES_MAX:
        detail = f"options: at most {OPTIONS_BYTES_MAX} bytes, are {len(block)}"
        raise WireError(ErrorCode.OPTIONS_BLOCK_TOO_LARGE, detail)
    reader = Reader(block, code)
    options: dict[str, Option] = {}
    while reader.remaining:
        if len(options) == OPTIONS_COUNT_MAX:
            detail = f"options: at most {OPTIONS_COUNT_MAX} pairs"
            raise WireError(ErrorCode.OPTIONS_BLOCK_TOO_LARGE, detail)
        option = _read_option(reader)
        if option.key in options:
            reader.fail(f"option {option.key}: given twice")
        options[option.key] = option
    return tuple(options.values())


def _read_option(reader: Reader) -> Option:
    kind, key = _read_item(reader, "option key")
    if kind != ValueKind.STRING:
        reader.fail(f"option key: kind must be {ValueKind.STRING.value} (string), is {kind}")
    try:
        text = str(key, "utf-8")
    except UnicodeDecodeError:
        reader.fail("option key: must be UTF-8")
    kind, value = _read_item(reader, f"option {text}")
    return Option(text, kind, bytes(value))


def _read_item(reader: Reader, field: str) -> tuple[int, memoryview]:
    kind = reader.u8(f"{field}: kind")
    if kind == 0:
        reader.fail(f"{field}: kind 0 is not a kind")
    length = reader.u32(f"{field}: length")
    if not 1 <= length <= _ITEM_BYTES_MAX:
        reader.fail(f"{field}: must have 1 to {_ITEM_BYTES_MAX} bytes, has {length}")
    return kind, reader.take(length, field)


def pair_bytes(key_kind: int, key: bytes, value_kind: int, value: bytes) -> bytes:
    """One pair of a list. Keys and values have 1 to 255 bytes: `INVALID_KEY_VALUE_LENGTH`."""
    for field, item in (("key", key), ("value", value)):
        if not 1 <= len(item) <= _ITEM_BYTES_MAX:
            detail = f"{field} {key!r}: must have 1 to {_ITEM_BYTES_MAX} bytes, has {len(item)}"
            raise WireError(ErrorCode.INVALID_KEY_VALUE_LENGTH, detail)
    return (
        struct.pack("<BI", key_kind, len(key))
        + key
        + struct.pack("<BI", value_kind, len(value))
        + value
    )


def _kind_of(value: Value) -> ValueKind:
    if isinstance(value, bool):
        return ValueKind.BOOL
    if isinstance(value, int):
        return ValueKind.UINT64 if value >= 0 else ValueKind.INT64
    return ValueKind.FLOAT64 if isinstance(value, float) else ValueKind.RAW


def _value_bytes(key: str, value: Value, kind: ValueKind) -> bytes:
    try:
        if isinstance(value, str) and kind == ValueKind.STRING:
            return value.encode()
        if isinstance(value, bytes) and kind == ValueKind.RAW:
            return value
        if isinstance(value, bool) and kind == ValueKind.BOOL:
            return b"\x01" if value else b"\x00"
        if isinstance(value, float) and kind in _FLOATS:
            return struct.pack(_FLOATS[kind], value)
        if isinstance(value, int) and not isinstance(value, bool) and kind in _INTEGERS:
            length, signed = _INTEGERS[kind]
            return value.to_bytes(length, "little", signed=signed)
    except (OverflowError, UnicodeEncodeError):
        pass
    detail = f"option {key}: {value!r} is no value of kind {kind.name.lower()}"
    raise WireError(ErrorCode.INVALID_OPTION_VALUE, detail)
