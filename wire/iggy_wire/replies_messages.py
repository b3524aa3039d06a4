"""Bodies of replies that move messages and consumer offsets."""

from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader, pack, u32_bytes
from iggy_wire.reply_base import Reply

POLL_HEAD_BYTES: Final = 16

_POLL_HEAD: Final = Struct("<IQI")
_CONFIRMATION: Final = Struct("<IIIQ")
_ONE_CONFIRMATION: Final = Struct("<IIIIQ")
_OFFSET: Final = Struct("<IQQ")


class Confirmation(msgspec.Struct, frozen=True, gc=False):
    """Where one batch landed. `base_offset` is the offset of its first message."""

    stream_id: int
    topic_id: int
    partition_id: int
    base_offset: int


class Confirmations(Reply, frozen=True, gc=False):
    """Where the batches of a send landed: one entry per request."""

    confirmations: tuple[Confirmation, ...]

    def encode(self) -> bytes:
        """Count, entries."""
        count = u32_bytes(len(self.confirmations), "confirmations")
        return count + b"".join(
            pack(_CONFIRMATION, "confirmation", *msgspec.structs.astuple(one))
            for one in self.confirmations
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = reader.count("confirmations", _CONFIRMATION.size)
        return cls(
            tuple(Confirmation(*reader.unpack(_CONFIRMATION, "confirmation")) for _ in range(count))
        )


def confirmation_bytes(stream_id: int, topic_id: int, partition_id: int, base_offset: int) -> bytes:
    """The body of `Confirmations` with one entry: the hot path of every server."""
    return _ONE_CONFIRMATION.pack(1, stream_id, topic_id, partition_id, base_offset)


def decode_confirmation(body: Buffer) -> Confirmation | None:
    """The entry of a body of `Confirmations`; servers send one per request, or none where a
    partition had all of its messages already.
    """
    if len(body) == _ONE_CONFIRMATION.size:
        count, stream_id, topic_id, partition_id, base_offset = _ONE_CONFIRMATION.unpack(body)
        if count == 1:
            return Confirmation(stream_id, topic_id, partition_id, base_offset)
    confirmations = Confirmations.decode(body).confirmations
    return confirmations[0] if confirmations else None


class Polled(Reply, frozen=True, gc=False):
    """Messages of one partition. `region` holds whole batches, one after another, not copied.

    `current_offset` is the last offset of the partition, 0 if it is empty; `count` says how many
    messages are in `region`. The first frame of a cut batch has an offset delta above 0.
    """

    partition_id: int
    current_offset: int
    count: int
    region: Buffer = b""

    def encode(self) -> bytes:
        """Head and region in one piece: copies the region."""
        return poll_head_bytes(self.partition_id, self.current_offset, self.count) + self.region

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(*(*reader.unpack(_POLL_HEAD, "poll head"), reader.rest()))


def poll_head_bytes(partition_id: int, current_offset: int, count: int) -> bytes:
    """The 16 bytes in front of the batches of a poll reply."""
    return _POLL_HEAD.pack(partition_id, current_offset, count)


class StoredOffset(Reply, frozen=True, gc=False):
    """A consumer's stored offset beside the last offset of the partition."""

    partition_id: int
    current_offset: int
    stored_offset: int

    def encode(self) -> bytes:
        """Twenty bytes."""
        return pack(_OFFSET, "offset", self.partition_id, self.current_offset, self.stored_offset)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(*reader.unpack(_OFFSET, "offset"))
