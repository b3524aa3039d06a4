"""A log whose batches are encrypted as they are written. See `iggy_wire.sealing`."""

from __future__ import annotations

from collections.abc import Sequence

from iggy_broker.storage.disk import Bytes
from iggy_broker.storage.layout import parents_of
from iggy_broker.storage.partition_log import LogOptions, PartitionLog
from iggy_broker.storage.segment import Segment
from iggy_broker.storage.values import StorageParts


class EncryptedLog(PartitionLog):
    """Needs a key in its options."""

    __slots__ = ()

    def append(self, batch: Bytes, count: int, timestamp_us: int) -> None:
        """As that of any log; the batch itself stays as it is."""
        super().append(self._options.keys.seal(batch), count, timestamp_us)


def open_log(
    folder: str, segments: Sequence[Segment], segment_bytes: int, parts: StorageParts
) -> PartitionLog:
    """A log over recovered segments, or over none, as its shard wants it."""
    kind = EncryptedLog if parts.keys.key_id else PartitionLog
    options = LogOptions(segment_bytes, parents_of(folder), parts.keys)
    return kind(
        folder, [*segments], options, disk=parts.disk, indexes=parts.indexes, warn=parts.warn
    )
