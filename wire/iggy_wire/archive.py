"""Archived segments: their names in an archive, and the manifest that says what a segment holds.

An archive has much the tree of a data directory, in a folder or below a prefix of a bucket; to make
one of it is for a restore:

    streams/{stream}/topics/{topic}/partitions/{partition}/
        {first offset}.log                a sealed segment, byte for byte
        {first offset}.index              its index
        {first offset}.{position}.part    a piece of the log that is written now, from that byte on
        {first offset}.json               the manifest, written last: without it there is no segment

        offsets.json                      what consumers and groups have stored
    metadata/snapshot                     streams, topics, users, groups, as a broker keeps them
    owner.json                            which data directory copies to this archive
    owners/{generation}.{id}.json         where that one and those before it began, see
                                          `archive_fences`

Offsets and positions have 20 digits. What an owner writes that has taken the archive over has its
generation in the name, as in `{first offset}-2.log`, `offsets-2.json` or `metadata/snapshot-2`: no
owner writes over what is another's. Where the archive has a topic of that number from another life
already, the new one's folder is `{topic}.{incarnation}`; after a purge `{topic}.{incarnation}-{how
often it was emptied}`.

A piece's object may be longer than its piece: it was joined with those behind it, and the manifest
that says so is yet to come. Read as many bytes as the manifest names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from iggy_wire.errors import ErrorCode, WireError

FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 1 << 20
PIECES_MAX: Final = 1024
"""Of one segment: pieces are joined before there are so many."""

METADATA_KEY: Final = "metadata/snapshot"
OWNER_KEY: Final = "owner.json"
OWNERS_PREFIX: Final = "owners/"

_DIGITS: Final = 20
_NUMBER: Final = msgspec.Meta(ge=0, le=(1 << 63) - 1)
_HASH: Final = msgspec.Meta(pattern="^[0-9a-f]{16}$")
_NAME: Final = re.compile(
    r"(?P<folder>streams/\d+/topics/\d+(?:\.\d+(?:-\d+)?)?/partitions/\d+)/"
    r"(?P<first>\d{20})(?:-(?P<generation>[1-9]\d{0,17}))?"
    r"(?:\.(?P<position>\d{20}))?\.(?P<kind>log|index|part|json)",
    re.ASCII,
)

_STATE: Final = re.compile(
    r"\d+_state/snapshot|metadata/snapshot-\d+|owners/\d{20}\.[0-9a-f]{32}\.json"
    r"|streams/\d+/topics/\d+(?:\.\d+(?:-\d+)?)?/partitions/\d+/offsets(?:-\d+)?\.json",
    re.ASCII,
)

Number = Annotated[int, _NUMBER]
Hash = Annotated[str, _HASH]
"""XXH3-64 of some bytes, in hexadecimal digits; the id of a key has as many."""


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """Which messages are meant by a partition's name."""

    incarnation: int
    purges: int

    @property
    def suffix(self) -> str:
        """For a folder of its own."""
        purged = f"-{self.purges}" if self.purges else ""
        return f"{self.incarnation}{purged}"


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of a log from `position` on, in an object of their own."""

    position: Number
    size_bytes: Number
    xxh3: Hash


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an archived segment holds. Times are the broker's, in microseconds since 1970."""

    format: int = FORMAT
    stream_id: Number
    topic_id: Number
    partition_id: Number
    stream: str
    topic: str
    incarnation: Number
    """Which life of the partition."""
    purges: Number
    """How often it had been emptied."""
    first_offset: Number
    next_offset: Number
    first_timestamp_us: Number
    last_timestamp_us: Number
    size_bytes: Number
    """Of the log."""
    xxh3: Hash
    """Of the log."""
    index_bytes: Number = 0
    index_xxh3: Hash = "0" * 16
    sealed: bool = True
    """Whether nothing can follow. Else the log is in pieces, and without an index."""
    pieces: Annotated[tuple[Piece, ...], msgspec.Meta(max_length=PIECES_MAX)] = ()
    written_at_us: Number = 0
    key_id: Hash | msgspec.UnsetType = msgspec.UNSET
    """Of the key that the segment is encrypted with, see `sealing`; not there if it is not. Whoever
    does not know the field cannot read such a segment, and refuses the manifest."""
    owner_generation: Number | msgspec.UnsetType = msgspec.UNSET
    """Of the owner that wrote it, if that one took the archive over; see `generation`."""

    @property
    def generation(self) -> int:
        """Of the owner that wrote it; 0: the first one, or one before manifests named it."""
        return self.owner_generation or 0

    @property
    def messages(self) -> int:
        """Messages in it."""
        return self.next_offset - self.first_offset

    def encode(self) -> bytes:
        """As it is stored."""
        return msgspec.json.format(msgspec.json.encode(self))

    @classmethod
    def decode(cls, data: bytes, name: str) -> Manifest:
        """Read one; `name` stands for it in errors.

        Raises:
            WireError: it is none, is of a newer format, or contradicts itself.
        """
        try:
            found = msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise WireError(ErrorCode.INVALID_FORMAT, f"{name}: {error}") from error
        if found.format != FORMAT:
            detail = f"{name}: has format {found.format}, this version reads {FORMAT}"
            raise WireError(ErrorCode.INVALID_FORMAT, detail)
        if problem := _contradiction(found):
            raise WireError(ErrorCode.INVALID_FORMAT, f"{name}: {problem}")
        return found


def _contradiction(found: Manifest) -> str:
    if found.next_offset <= found.first_offset or not found.size_bytes:
        return "a segment has at least one message"
    if found.first_timestamp_us > found.last_timestamp_us:
        return "its first message is later than its last"
    if found.sealed == bool(found.pieces):
        return "a sealed segment has no pieces, any other one has"
    at = 0
    for piece in found.pieces:
        if piece.position != at or not piece.size_bytes:
            return f"no piece begins at byte {at}"
        at += piece.size_bytes
    if found.pieces and at != found.size_bytes:
        return f"its pieces end at byte {at}, its log at {found.size_bytes}"
    return ""


def topic_folder(stream_id: int, topic_id: int, life: str | None = None) -> str:
    """Of a topic; `life` where another one of its number has the plain name."""
    suffix = "" if life is None else f".{life}"
    return f"streams/{stream_id}/topics/{topic_id}{suffix}"


def partition_folder(topic: str, partition_id: int) -> str:
    """Of a partition in the folder of its topic."""
    return f"{topic}/partitions/{partition_id}"


def log_key(folder: str, first_offset: int, generation: int = 0) -> str:
    """Of a sealed segment's log. `generation`: of the owner that writes it."""
    return f"{segment_name(folder, first_offset, generation)}.log"


def index_key(folder: str, first_offset: int, generation: int = 0) -> str:
    """Of its index."""
    return f"{segment_name(folder, first_offset, generation)}.index"


def manifest_key(folder: str, first_offset: int, generation: int = 0) -> str:
    """Of its manifest."""
    return f"{segment_name(folder, first_offset, generation)}.json"


def piece_key(folder: str, first_offset: int, position: int, generation: int = 0) -> str:
    """Of a piece of a log that is being written."""
    return f"{segment_name(folder, first_offset, generation)}.{position:0{_DIGITS}d}.part"


def segment_name(folder: str, first_offset: int, generation: int = 0) -> str:
    """What the keys of a segment's objects begin with."""
    return f"{folder}/{first_offset:0{_DIGITS}d}{_by(generation)}"


def offsets_key(folder: str, generation: int = 0) -> str:
    """Of the stored offsets of a partition."""
    return f"{folder}/offsets{_by(generation)}.json"


def metadata_key(generation: int = 0) -> str:
    """Of metadata as they are now."""
    return f"{METADATA_KEY}{_by(generation)}"


def _by(generation: int) -> str:
    return f"-{generation}" if generation else ""


def kept_metadata_key(at_us: int) -> str:
    """Of metadata as they were then, which stay."""
    return f"{at_us}_state/snapshot"


def is_state(key: str) -> bool:
    """Whether an object is none of a segment's, and ours."""
    return key in (METADATA_KEY, OWNER_KEY) or _STATE.fullmatch(key) is not None


class Named(msgspec.Struct, frozen=True):
    """What a key stands for."""

    folder: str
    first_offset: int
    kind: str  # log, index, part, json
    position: int | None
    generation: int = 0


def parse_key(key: str) -> Named | None:
    """What a key stands for; None for objects that are not ours."""
    found = _NAME.fullmatch(key)
    if found is None:
        return None
    position = None if found["position"] is None else int(found["position"])
    if (position is None) == (found["kind"] == "part"):
        return None
    generation = int(found["generation"] or 0)
    return Named(found["folder"], int(found["first"]), found["kind"], position, generation)
