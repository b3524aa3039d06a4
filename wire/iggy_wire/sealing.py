"""Batches encrypted at rest: AES-256-GCM over all messages of a batch at once.

An encrypted batch is as long as the batch was. Its header stays readable, so that a log is checked,
indexed and searched by time without a key. All integers are little-endian:

    0    header fields of the batch, as they were, up to byte 39
    40   checksum, u64: XXH3-64 over bytes 0-39, bytes 48-255 and the XXH3-64 of the rest
    48   count of messages, u32, as it was
    52   MARK; a batch in the clear has zeros from here on
    56   id of the key, 8 bytes: the first of the SHA-256 of the key
    64   salt, 16 bytes
    80   nonce, 12 bytes
    92   tag, 16 bytes
    108  bytes 280-283 of the encrypted batch, which are zeros in place
    112  zeros
    256  the encrypted messages

Bytes 280-283 are where walkers read the number of the first message in the batch: 0 in a log.
Authenticated with the messages are bytes 0-39 and 48-91. The checksums of messages and batch depend
on nothing else, so they are made anew when a batch is opened.

The key itself encrypts nothing. Each process makes a salt, and from both the key that it encrypts
with (HKDF-Expand, RFC 5869, with SHA-256), under which its nonces count from 0. So none is used
twice, however many brokers and batches a key sees.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from iggy_wire import kernel
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.kernel_types import (
    BATCH_HEADER_BYTES,
    CLEAN_END,
    FRAME_HEADER_BYTES,
    INVALID_BATCH_CHECKSUM,
    INVALID_OFFSET,
    INVALID_RESERVED_FIELD,
    OFFSET_END_MAX,
    Buffer,
    Scan,
)

if TYPE_CHECKING:  # not every reader of batches needs it, and it is slow to import
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
MARK: Final = b"ENC1"
PREFIX_BYTES: Final = 64
"""Of a batch, from its beginning: what `key_id_of` needs."""
BATCHES_MAX: Final = 1 << 32
"""That are encrypted with one salt."""
SCRATCH_BYTES_MAX: Final = 4 << 20
"""That each thread keeps which opens batches."""

_CIPHERS_MAX: Final = 1024  # ready at once; a process writes with one, older ones wrote the others
_INFO: Final = b"IggyKube batch"
_LENGTH_AT: Final = 32
_CHECKSUM_AT: Final = 40
_MARK_AT: Final = 52
_KEY_ID_AT: Final = 56
_KEY_ID_BYTES: Final = 8
_TAG_AT: Final = 92
_TAG_BYTES: Final = 16
_MOVED_AT: Final = 108
_REST_AT: Final = 112
_FIRST_AT: Final = BATCH_HEADER_BYTES + 24  # the first message's number in the batch, u32
_FIRST_BYTES: Final = 4
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12

_SEALING: Final = Struct("<4s8s16s12s")  # mark, key id, salt, nonce
_FIELDS: Final = Struct("<QQQQQQI")  # as in `batch`
_ZEROS: Final = bytes(BATCH_HEADER_BYTES - _REST_AT)
_U64: Final = Struct("<Q")
_ONE_MESSAGE_BATCH_BYTES: Final = BATCH_HEADER_BYTES + FRAME_HEADER_BYTES


class UnreadableBatchError(WireError):
    """An encrypted batch that cannot be opened: its key is not given, or it was changed."""

    def __init__(self, offset: int, key_id: str, *, is_given: bool) -> None:
        """`offset`: of its first message. `key_id`: what it was encrypted with; is that known?"""
        why = "it was changed since" if is_given else "that key is not given"
        detail = f"the batch with offset {offset} was encrypted with key {key_id}: {why}"
        super().__init__(ErrorCode.CANNOT_DECRYPT_DATA, detail)
        self.offset = offset
        self.key_id = key_id
        self.is_given = is_given

    def __reduce__(self) -> tuple[Callable[..., UnreadableBatchError], tuple[int, str]]:  # type: ignore[override]
        """Pickle by the three arguments."""
        return partial(UnreadableBatchError, is_given=self.is_given), (self.offset, self.key_id)


def parse_key(text: str) -> bytes:
    """A key as people write it: base64 of 32 bytes. ValueError, without the text, if it is none."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"write base64 of {KEY_BYTES} bytes, as `openssl rand -base64 32` gives")
    return key


def id_of(key: bytes) -> str:
    """What a key is called where people read: 16 hexadecimal digits that tell nothing of it."""
    return hashlib.sha256(key).digest()[:_KEY_ID_BYTES].hex()


def key_id_of(batch: Buffer) -> str:
    """Id of the key that a batch is encrypted with, by its first bytes; empty: it is not."""
    with memoryview(batch) as view:
        if len(view) < PREFIX_BYTES or bytes(view[_MARK_AT:_KEY_ID_AT]) != MARK:
            return ""
        return view[_KEY_ID_AT : _KEY_ID_AT + _KEY_ID_BYTES].hex()


class Keyring:
    """The keys of a program: it encrypts with one of them, and reads what any of them encrypted."""

    __slots__ = ("_cipher", "_ciphers", "_count", "_id", "_keys", "_process", "_salt", "key_id")

    def __init__(self, old: Sequence[bytes] = (), *, key: bytes | None = None) -> None:
        """`key` encrypts; without it nothing is. `old` ones only read. Of 32 bytes each."""
        given = [*old] if key is None else [key, *old]
        if any(len(one) != KEY_BYTES for one in given):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._keys = {id_of(one): one for one in given}
        self._ciphers: dict[tuple[str, bytes], AESGCM] = {}
        self.key_id = "" if key is None else id_of(key)
        self._id = bytes.fromhex(self.key_id)
        self._process = 0  # that made the salt
        self._count = 0  # batches encrypted with it
        self._salt = b""
        self._cipher: AESGCM | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all keys, the one that encrypts first."""
        return tuple(self._keys)

    def seal(self, batch: Buffer) -> bytearray:
        """Encrypt one batch of a log, stamped. Not for several threads at once."""
        if self._process != os.getpid() or self._count == BATCHES_MAX:
            self._begin()
        assert self._cipher is not None, "only with a key"
        nonce = self._count.to_bytes(_NONCE_BYTES, "little")
        self._count += 1
        with memoryview(batch) as view:
            sealed = bytearray(len(view) + _TAG_BYTES)
            with memoryview(sealed) as out:
                out[:_MARK_AT] = view[:_MARK_AT]
                _SEALING.pack_into(out, _MARK_AT, MARK, self._id, self._salt, nonce)
                messages, closed = view[BATCH_HEADER_BYTES:], out[BATCH_HEADER_BYTES:]
                self._cipher.encrypt_into(nonce, messages, _authenticated(out), closed)
                closed.release()
                out[_TAG_AT:_MOVED_AT] = out[-_TAG_BYTES:]
                out[_MOVED_AT:_REST_AT] = out[_FIRST_AT : _FIRST_AT + _FIRST_BYTES]
                out[_FIRST_AT : _FIRST_AT + _FIRST_BYTES] = bytes(_FIRST_BYTES)
                _U64.pack_into(out, _CHECKSUM_AT, _checksum(out[:-_TAG_BYTES]))
        del sealed[-_TAG_BYTES:]
        return sealed

    def open(self, region: Buffer) -> memoryview:
        """Whole batches as they were before they were encrypted; others stay as they are.

        Raises:
            UnreadableBatchError: one cannot be opened.
            WireError: lengths do not fit.
        """
        with memoryview(region) as view:
            opened = memoryview(bytearray(len(view)))
            at = 0
            while at < len(view):
                end = at + _length(view, at)
                if _is_marked(view, at):
                    self._open(view[at:end], opened[at:end])
                else:
                    opened[at:end] = view[at:end]
                at = end
        return opened.toreadonly()

    def _open(self, sealed: memoryview, out: memoryview) -> None:
        offset = _FIELDS.unpack_from(sealed)[1]
        _, key_id, salt, nonce = _SEALING.unpack_from(sealed, _MARK_AT)
        cipher = self._cipher_of(key_id.hex(), salt)
        if cipher is None:
            raise UnreadableBatchError(offset, key_id.hex(), is_given=False)
        size = len(sealed) - BATCH_HEADER_BYTES
        closed = _scratch(size + _TAG_BYTES)
        closed[:size] = sealed[BATCH_HEADER_BYTES:]
        first = _FIRST_AT - BATCH_HEADER_BYTES
        closed[first : first + _FIRST_BYTES] = sealed[_MOVED_AT:_REST_AT]
        closed[size:] = sealed[_TAG_AT:_MOVED_AT]
        messages = out[BATCH_HEADER_BYTES:]
        is_sound = _decrypt(cipher, nonce, closed, _authenticated(sealed), messages)
        if not (is_sound and _has_zeros(sealed)):
            raise UnreadableBatchError(offset, key_id.hex(), is_given=True)
        out[:_MARK_AT] = sealed[:_MARK_AT]
        kernel.seal(out)

    def _begin(self) -> None:
        """Another salt: for this process, so that no other one has its nonces."""
        self._salt, self._count, self._process = os.urandom(_SALT_BYTES), 0, os.getpid()
        self._cipher = self._cipher_of(self.key_id, self._salt)

    def _cipher_of(self, key_id: str, salt: bytes) -> AESGCM | None:
        cipher = self._ciphers.get((key_id, salt))
        if cipher is None and (key := self._keys.get(key_id)) is not None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            if len(self._ciphers) == _CIPHERS_MAX:
                self._ciphers.clear()
            cipher = AESGCM(hmac.digest(key, _INFO + salt + b"\x01", "sha256"))
            self._ciphers[key_id, salt] = cipher
        return cipher


def with_offsets(region: Buffer, first_offset: int, end_offset: int) -> Buffer:
    """The batches of a region that have messages with first_offset <= their offset < end_offset.

    So that no others are opened in vain. BrokenBatchError at a broken header.
    """
    start = kernel.locate(region, first_offset)
    last = kernel.locate(region, end_offset - 1)
    view = memoryview(region)
    stop = last + _length(view, last) if last < len(view) else last
    return view[start:stop]


NO_KEYS: Final = Keyring()


def scan(region: Buffer, expected_offset: int, *, frames: bool, index_bytes: int) -> Scan:
    """`kernel.scan` of a log that may have encrypted batches, which no key is needed for."""
    found = kernel.scan(region, expected_offset, frames=frames, index_bytes=index_bytes)
    if found.reason != INVALID_RESERVED_FIELD:
        return found
    with memoryview(region) as view:
        while _is_sealed(view, found.end):
            found = _scan_sealed(view, found, index_bytes)
            if found.reason:
                break
            with view[found.end :] as rest:
                more = kernel.scan(rest, found.next_offset, frames=frames, index_bytes=index_bytes)
            found = _joined(found, more)
    return found


def _is_sealed(view: memoryview, at: int) -> bool:
    """Whether a whole encrypted batch stands there, by its lengths and its mark."""
    left = len(view) - at
    if left < _ONE_MESSAGE_BATCH_BYTES or not _is_marked(view, at):
        return False
    _, _, _, _, length, _, count = _FIELDS.unpack_from(view, at)
    fits: bool = _ONE_MESSAGE_BATCH_BYTES <= length <= left
    return fits and 0 < count <= (length - BATCH_HEADER_BYTES) // FRAME_HEADER_BYTES


def _is_marked(view: memoryview, at: int) -> bool:
    return bytes(view[at + _MARK_AT : at + _KEY_ID_AT]) == MARK


def _has_zeros(sealed: memoryview) -> bool:
    """Whether what is neither used nor under the tag is as it was made."""
    rest, first = sealed[_REST_AT:BATCH_HEADER_BYTES], sealed[_FIRST_AT : _FIRST_AT + _FIRST_BYTES]
    return bytes(rest) == _ZEROS and bytes(first) == bytes(_FIRST_BYTES)


def _scan_sealed(view: memoryview, found: Scan, index_bytes: int) -> Scan:
    """Go on over the encrypted batches that stand where `found` ends."""
    at, expected, messages = found.end, found.next_offset, found.messages
    entries, last_timestamp_us, reason = list(found.entries), found.last_timestamp_us, CLEAN_END
    while _is_sealed(view, at):
        _, offset, timestamp_us, _, length, _, count = _FIELDS.unpack_from(view, at)
        with view[at : at + length] as batch:
            reason = _fault(batch, offset, expected)
        if reason:
            break
        if not entries or at - entries[-1][2] >= index_bytes:
            entries.append((offset, timestamp_us, at))
        at, expected = at + length, offset + count
        last_timestamp_us = max(last_timestamp_us, timestamp_us)
        messages += count
    return Scan(at, expected, last_timestamp_us, messages, entries, reason)


def _joined(found: Scan, more: Scan) -> Scan:
    """The same with what stands behind it."""
    entries = [(offset, time_us, found.end + at) for offset, time_us, at in more.entries]
    return Scan(
        found.end + more.end,
        more.next_offset,
        max(found.last_timestamp_us, more.last_timestamp_us),
        found.messages + more.messages,
        found.entries + entries,
        more.reason,
    )


def _fault(sealed: memoryview, offset: int, expected_offset: int) -> int:
    """Why a walk stops at an encrypted batch; 0 if it does not."""
    if not _has_zeros(sealed):
        return INVALID_RESERVED_FIELD
    if _U64.unpack_from(sealed, _CHECKSUM_AT)[0] != _checksum(sealed):
        return INVALID_BATCH_CHECKSUM
    if offset >= OFFSET_END_MAX or expected_offset not in (-1, offset):
        return INVALID_OFFSET
    return CLEAN_END


def _checksum(sealed: memoryview) -> int:
    body = kernel.xxh3_64(sealed[BATCH_HEADER_BYTES:])
    header = bytes(sealed[:_CHECKSUM_AT]) + sealed[_CHECKSUM_AT + 8 : BATCH_HEADER_BYTES]
    return kernel.xxh3_64(header + _U64.pack(body))


def _authenticated(sealed: Buffer) -> bytes:
    """What of the header is under the tag."""
    with memoryview(sealed) as view:
        return bytes(view[:_CHECKSUM_AT]) + view[_CHECKSUM_AT + 8 : _TAG_AT]


def _decrypt(
    cipher: AESGCM, nonce: bytes, closed: memoryview, associated: bytes, out: memoryview
) -> bool:
    """Whether the tag fits."""
    from cryptography.exceptions import InvalidTag

    try:
        cipher.decrypt_into(nonce, closed, associated, out)
    except InvalidTag:
        return False
    return True


class _Scratch(threading.local):
    """Memory of a thread, used again and again: touching new memory costs as much as AES does."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray())


_SCRATCH: Final = _Scratch()


def _scratch(size_bytes: int) -> memoryview:
    """Any content."""
    if size_bytes > SCRATCH_BYTES_MAX:
        return memoryview(bytearray(size_bytes))
    if len(_SCRATCH.memory) < size_bytes:
        _SCRATCH.memory = memoryview(bytearray(size_bytes))
    return _SCRATCH.memory[:size_bytes]


def _length(view: memoryview, at: int) -> int:
    """Of the batch there. WireError if it does not fit the region."""
    left = len(view) - at
    length: int = _U64.unpack_from(view, at + _LENGTH_AT)[0] if left >= BATCH_HEADER_BYTES else 0
    if not _ONE_MESSAGE_BATCH_BYTES <= length <= left:
        raise kernel.BrokenBatchError(at, f"batch_length {length} does not fit the region")
    return length
