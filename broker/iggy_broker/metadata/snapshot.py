"""All metadata in one file: magic, version, state, checksum; and what is wrong with a bad one.

The same bytes without users lie beside the streams (`streams/info`): see `recreate`.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from iggy_broker.metadata.memberships import Memberships
from iggy_broker.metadata.model import State
from iggy_broker.storage.disk import Disk
from iggy_wire.kernel import xxh3_64

FOLDER: Final = "metadata"
SNAPSHOT_FILE: Final = "snapshot.bin"
VERSION: Final = 3  # newer ones are refused; 3: defaults of topics. Older ones are read as they are
SNAPSHOT_BYTES_MAX: Final = 1 << 30
FILE_HEAD: Final = struct.Struct("<8sII")  # magic, version, 0
REMEDY: Final = (
    f"restore {FOLDER}/ from a backup, or start with system.recovery.recreate_missing_state"
)

_MAGIC: Final = b"IGKSNAP\0"
_HEAD: Final = FILE_HEAD.pack(_MAGIC, VERSION, 0)
_CHECKSUM_BYTES: Final = 8
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(State)


class MetadataDamaged(Exception):
    """Metadata on disk that is not ours or cannot be trusted. The text says where and the fix."""


class MetadataNewer(MetadataDamaged):
    """Nothing is wrong with it, but only a newer broker can read it."""


def encode_snapshot(state: State) -> bytes:
    """The bytes of a snapshot file."""
    kept = msgspec.structs.replace(state, memberships=Memberships())
    body = _HEAD + _ENCODER.encode(kept)
    return body + xxh3_64(body).to_bytes(_CHECKSUM_BYTES, "little")


def read_snapshot(disk: Disk, path: str) -> State:
    """The state in a snapshot file; an empty one if it is missing. MetadataDamaged, OSError."""
    if not disk.exists(path):
        return State()
    return decode_snapshot(disk.read_file(path, bytes_max=SNAPSHOT_BYTES_MAX + 1), path)


def decode_snapshot(data: bytes, path: str) -> State:
    """The state in the bytes of such a file; `path` is for errors. MetadataDamaged."""
    check_head(data, _MAGIC, path)
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if xxh3_64(body).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise MetadataDamaged(f"{path}: checksum is wrong; {REMEDY}")
    try:
        return _DECODER.decode(memoryview(body)[FILE_HEAD.size :])
    except msgspec.MsgspecError as error:
        raise MetadataDamaged(f"{path}: {error}; {REMEDY}") from error


def check_head(data: bytes, magic: bytes, path: str) -> None:
    """Refuse what does not begin as a file of ours, of this version or an older one."""
    if len(data) < FILE_HEAD.size or data[: len(magic)] != magic:
        detail = "is not IggyKube metadata; point system.path at another directory, or restore it"
        raise MetadataDamaged(f"{path} {detail}")
    version = FILE_HEAD.unpack_from(data)[1]
    if version > VERSION:
        detail = f"format {version} is newer than this broker's {VERSION}; start a newer broker"
        raise MetadataNewer(f"{path}: {detail}")
