"""Where the owners of an archive began: what a former one copied from there on counts no more.

A broker whose archive was taken over does not know it at once: it was cut off, or stopped in the
middle of a copy. What it still writes has names of its own, see `archive`, and lies behind a fence:
for each partition the end that the restore took. The fences of all owners up to the present one
are one object, named by its generation and id. It is there before `owner.json` names that owner, so
that all of them count from one moment on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

import msgspec

from iggy_wire.archive import OWNERS_PREFIX, Life, Number
from iggy_wire.errors import ErrorCode, WireError

FORMAT: Final = 1
ERAS_MAX: Final = 16
"""That are kept. Of earlier owners only the order remains that their manifests name."""
FENCES_BYTES_MAX: Final = 512 << 20
"""A broker has at most 262,144 partitions, each of some 60 bytes in an era."""

_OWNER_ID: Final = msgspec.Meta(pattern="^[0-9a-f]{32}$")

T = TypeVar("T")

PartitionKey = tuple[int, int, int]
"""Numbers of stream, topic and partition."""


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """Where an owner began with a partition."""

    incarnation: Number
    purges: Number
    next_offset: Number
    """Its first offset was to be this one."""
    last_timestamp_us: Number
    """Of the message before that, microseconds since 1970."""


class Era(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an owner had when it took the archive over."""

    generation: Number
    op: Number
    """Number of the last change of its metadata: lives that began later are not of earlier ones."""
    partitions: dict[str, Fence]
    """By numbers of stream, topic and partition, as in `0/0/0`."""


class Fences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of an owner and of those before it."""

    format: int = FORMAT
    id: Annotated[str, _OWNER_ID]
    generation: Number
    eras: tuple[Era, ...] = ()
    """By generation, ascending. The owner's own may be missing: the restore is not done yet, or the
    directory is no restored one."""

    @property
    def key(self) -> str:
        """Where it lies in the archive."""
        return fences_key(self.generation, self.id)

    @property
    def is_begun(self) -> bool:
        """Whether the owner's own era is there: nothing changes any more."""
        return bool(self.eras) and self.eras[-1].generation == self.generation

    def generations(self) -> list[int]:
        """Of all that may have written here, the last one first."""
        known = {self.generation, 0, *(era.generation for era in self.eras)}
        return sorted(known, reverse=True)

    def of(self, partition: PartitionKey, life: Life, generation: int) -> Fence | None:
        """How far counts what an owner of that generation wrote of a life; None: all of it."""
        name = name_of(partition)
        found: Fence | None = None
        for era in self.eras:
            if era.generation <= generation:
                continue
            fence = era.partitions.get(name)
            if fence is None:
                is_later = life.incarnation > era.op
            else:
                began = Life(fence.incarnation, fence.purges)
                is_later = life > began
                if life == began and (found is None or fence.next_offset < found.next_offset):
                    found = fence
            if is_later:
                return Fence(life.incarnation, life.purges, 0, 0)
        return found

    def of_last(self, partition: PartitionKey, life: Life) -> int:
        """Where the owner that began last went on with a life; 0: that is not known."""
        name = name_of(partition)
        for era in reversed(self.eras):
            fence = era.partitions.get(name)
            if fence is not None and Life(fence.incarnation, fence.purges) == life:
                return fence.next_offset
        return 0

    def has(self, generation: int) -> bool:
        """Whether it is known where that owner began."""
        return any(era.generation == generation for era in self.eras)

    def with_era(self, era: Era) -> Fences:
        """The same with the owner's own."""
        return msgspec.structs.replace(self, eras=(*self.eras, era)[-ERAS_MAX:])

    def encode(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes, name: str) -> Fences:
        """Read them; `name` stands for them in errors. WireError."""
        found = _decoded(data, cls, name)
        if found.format != FORMAT:
            detail = f"{name}: has format {found.format}, this version reads {FORMAT}"
            raise WireError(ErrorCode.INVALID_FORMAT, detail)
        return found


NO_FENCES: Final = Fences(id="0" * 32, generation=0)
"""Of an archive that was never taken over."""


class _Owner(msgspec.Struct, frozen=True):
    id: Annotated[str, _OWNER_ID]
    generation: Number


def name_of(partition: PartitionKey) -> str:
    """Of a partition, in an era."""
    return "/".join(map(str, partition))


def fences_key(generation: int, owner_id: str) -> str:
    """Where the fences of an owner are."""
    return f"{OWNERS_PREFIX}{generation:020d}.{owner_id}.json"


def key_for(owner: bytes, name: str) -> str | None:
    """Where the fences are that count, by the note whose archive it is; None: it is the first one.

    `name` stands for the note in errors. WireError.
    """
    found = _decoded(owner, _Owner, name)
    return fences_key(found.generation, found.id) if found.generation > 1 else None


def newest(keys: Iterable[str]) -> str | None:
    """The same for an archive that is nobody's now, by all keys of fences."""
    return max((key for key in keys if key.startswith(OWNERS_PREFIX)), default=None)


def _decoded(data: bytes, kind: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(ErrorCode.INVALID_FORMAT, f"{name}: {error}") from error
