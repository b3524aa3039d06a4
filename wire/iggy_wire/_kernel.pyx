# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True, binding=False
"""The kernel, compiled. `_kernel_plain.py` says in Python what every function here does.

Little-endian machines only. Bounds checks are off, so every length is compared with the bytes that
are left before it moves a pointer, and before anything is hashed. The GIL is held throughout.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport (
    INT64_MAX, INT64_MIN, UINT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
)
from libc.string cimport memcmp, memcpy

from iggy_wire.kernel_types import BrokenBatchError, Columns, Scan, Selection

include "_kernel_walk.pxi"
include "_kernel_columns.pxi"

LEVEL_MAX = 2
iggy_xxh3_prepare(LEVEL_MAX)


def hash_level(int level_max=LEVEL_MAX):
    """For tests and benches: use vector code up to a level only, answer the level this gives.

    0 is what the compiler builds for every machine, 1 AVX2, 2 AVX-512.
    """
    return iggy_xxh3_prepare(level_max)


def xxh3_64(data):
    """XXH3, 64 bits, seed 0."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint64_t value = iggy_xxh3(view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def unmask(data, uint32_t key):
    """XOR with the key's 4 bytes, repeated, in place. The key's lowest byte is for the first."""
    cdef Py_buffer view
    cdef uint8_t *at
    cdef Py_ssize_t left
    cdef uint64_t wide = (<uint64_t>key << 32) | key, word
    PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
    at = <uint8_t *>view.buf
    left = view.len
    while left >= 8:
        memcpy(&word, at, 8)
        word ^= wide
        memcpy(at, &word, 8)
        at += 8
        left -= 8
    while left:
        at[0] ^= <uint8_t>wide
        wide >>= 8
        at += 1
        left -= 1
    PyBuffer_Release(&view)


def verify(batch):
    """Check exactly one batch as a producer may send it. 0, or the error code that refuses it."""
    cdef Py_buffer view
    cdef Covered covered
    covered.data = covered.local
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        return incoming_fault(<const uint8_t *>view.buf, view.len, &covered)
    finally:
        free_covered(&covered)
        PyBuffer_Release(&view)


def admit(batch, uint64_t partition_id, uint64_t base_offset, uint64_t base_timestamp_us):
    """`verify`, then stamp the three values and the new batch checksum in place."""
    cdef Py_buffer view
    cdef Covered covered
    cdef uint8_t *data
    cdef int code
    covered.data = covered.local
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        data = <uint8_t *>view.buf
        code = incoming_fault(data, view.len, &covered)
        if code == 0:
            store64(data, partition_id)
            store64(data + 8, base_offset)
            store64(data + 16, base_timestamp_us)
            memcpy(covered.data, data, STAMP_BYTES)
            store64(data + 40, iggy_xxh3(covered.data, covered.length))
        return code
    finally:
        free_covered(&covered)
        PyBuffer_Release(&view)


def seal(batch):
    """Write every frame checksum and the batch checksum of one laid-out batch, in place."""
    cdef Py_buffer view
    cdef Batch found
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        if not read_batch(<uint8_t *>view.buf, 0, view.len, &found) or found.length != <uint64_t>view.len:
            raise BrokenBatchError(0, "length differs from the bytes given")
        seal_frames(<uint8_t *>view.buf, &found)
    finally:
        PyBuffer_Release(&view)


def scan(region, expected_offset, *, bint frames, index_bytes):
    """Walk stored batches from byte 0 and stop at the first that is torn or wrong."""
    cdef Py_buffer view
    cdef Py_ssize_t at = 0, indexed = 0
    cdef int64_t expected = clamp(expected_offset), stride = clamp(index_bytes)
    cdef uint64_t last_timestamp_us = 0, messages = 0
    cdef int reason = 0
    cdef Batch batch
    cdef list entries = []
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        while at < view.len:
            reason = stored_fault(<const uint8_t *>view.buf + at, view.len - at, expected, frames)
            if reason != 0:
                break
            read_batch(<const uint8_t *>view.buf, at, view.len, &batch)
            if at == 0 or at - indexed >= stride:
                entries.append((batch.first, batch.timestamp_us, at))
                indexed = at
            expected = batch.last + 1
            last_timestamp_us = max(last_timestamp_us, batch.timestamp_us)
            messages += batch.messages
            at += batch.length
    finally:
        PyBuffer_Release(&view)
    return Scan(
        at, expected if at else expected_offset, last_timestamp_us, messages, entries, reason
    )


def locate(region, offset):
    """Position of the first batch whose last offset is at least `offset`, else the length."""
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t at = 0
    cdef int64_t wanted = clamp(offset)
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        while read_batch(<const uint8_t *>view.buf, at, view.len, &batch):
            if batch.last >= wanted:
                return at
            if batch.length > <uint64_t>(view.len - at):
                break
            at += batch.length
        return view.len
    finally:
        PyBuffer_Release(&view)


def locate_time(region, timestamp_us):
    """Position of the first batch with base timestamp >= `timestamp_us`, else the length."""
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t at = 0
    cdef uint64_t wanted = max(0, min(timestamp_us, UINT64_MAX))
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        while read_batch(<const uint8_t *>view.buf, at, view.len, &batch):
            if batch.timestamp_us >= wanted:
                return at
            if batch.length > <uint64_t>(view.len - at):
                break
            at += batch.length
        return view.len
    finally:
        PyBuffer_Release(&view)


def select(region, offset, count):
    """Choose at most `count` messages with an offset of at least `offset`."""
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef Batch batch
    cdef Py_ssize_t at = 0, start = 0, begin
    cdef int64_t wanted = max(<int64_t>0, clamp(offset)), left = clamp(count), last_offset = -1
    cdef int64_t taken = 0, skip, take
    cdef bytes head = b"", tail = b""
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        while left > 0 and read_batch(data, at, view.len, &batch):
            if batch.length > <uint64_t>(view.len - at):
                break
            begin = at
            at += batch.length
            if batch.last < wanted:
                start = at
                continue
            skip = max(<int64_t>0, wanted - batch.first)
            take = min(batch.messages - skip, left)
            taken += take
            left -= take
            last_offset = batch.first + skip + take - 1
            if skip > 0:
                head, start = cut(data, begin, &batch, skip, take), at
            elif take < batch.messages:
                tail, at = cut(data, begin, &batch, 0, take), begin
    finally:
        PyBuffer_Release(&view)
    if taken == 0:
        start = at = 0
    return Selection(head, start, at, tail, taken, last_offset)


def columns(region, first_offset, end_offset, *, bint verify=False):
    """Lay out the messages with first_offset <= offset < end_offset as Arrow-ready buffers."""
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef Batch batch
    cdef Py_ssize_t at = 0
    cdef int64_t first = max(<int64_t>0, clamp(first_offset)), end = max(first, clamp(end_offset))
    cdef uint64_t room = 0, count = 0
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        while at < view.len:
            if not read_batch(data, at, view.len, &batch) or batch.length > <uint64_t>(view.len - at):
                raise BrokenBatchError(at, "incomplete at the end of the region")
            if batch.first < end and batch.last >= first:
                count += min(batch.last, end - 1) - max(batch.first, first) + 1
                room += batch.length - BATCH_HEADER_BYTES - FRAME_HEADER_BYTES * batch.messages
                if room > COLUMN_BYTES_MAX:
                    raise ValueError(
                        f"region holds over {COLUMN_BYTES_MAX} bytes of messages: split it"
                    )
            at += batch.length
        return lay_out(data, view.len, first, end, count, room, verify)
    finally:
        PyBuffer_Release(&view)
