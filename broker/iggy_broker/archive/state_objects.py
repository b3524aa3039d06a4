"""What an archive has beside segments: stored offsets of a partition, and whose archive it is."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec

from iggy_wire.archive import Life, Number
from iggy_wire.errors import ErrorCode, WireError

FORMAT: Final = 1
OFFSETS_BYTES_MAX: Final = 8 << 20
"""A partition keeps at most 65,536 stored offsets, each of some 30 bytes here."""
OWNER_BYTES_MAX: Final = 4096

_ID: Final = msgspec.Meta(ge=0, lt=1 << 32)
_OWNER_ID: Final = msgspec.Meta(pattern="^[0-9a-f]{32}$")

Offsets = dict[Annotated[int, _ID], Number]


class StoredOffsets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What consumers and groups of a partition had stored. Times are microseconds since 1970."""

    format: int = FORMAT
    stream_id: Number
    topic_id: Number
    partition_id: Number
    incarnation: Number
    purges: Number
    consumers: Offsets = {}
    """Offset by the consumer's number."""
    groups: Offsets = {}
    written_at_us: Number = 0

    @property
    def life(self) -> Life:
        """Which messages are meant."""
        return Life(self.incarnation, self.purges)

    @classmethod
    def decode(cls, data: bytes, name: str) -> StoredOffsets:
        """Read them; `name` stands for them in errors. WireError."""
        return _decode(data, cls, name)


class Owner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data directory whose broker copies to an archive; also as that directory notes it."""

    format: int = FORMAT
    id: Annotated[str, _OWNER_ID]
    generation: Number
    """Of two directories that want the same archive the higher one has it."""
    since_us: Number = 0
    is_settled: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Only as a directory notes it: the archive has had an owner, this one or the one before."""

    @classmethod
    def decode(cls, data: bytes, name: str) -> Owner:
        """Read one; `name` stands for it in errors. WireError."""
        return _decode(data, cls, name)


T = TypeVar("T", StoredOffsets, Owner)


def encode(what: StoredOffsets | Owner) -> bytes:
    """As it is stored."""
    return msgspec.json.format(msgspec.json.encode(what))


def _decode(data: bytes, kind: type[T], name: str) -> T:
    try:
        found = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(ErrorCode.INVALID_FORMAT, f"{name}: {error}") from error
    if found.format != FORMAT:
        detail = f"{name}: has format {found.format}, this version reads {FORMAT}"
        raise WireError(ErrorCode.INVALID_FORMAT, detail)
    return found
