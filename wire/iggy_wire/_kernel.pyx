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

cdef extern from "_xxh3.h":
    int iggy_xxh3_prepare(int level_max) noexcept nogil
    uint64_t iggy_xxh3(const void *data, size_t length) noexcept nogil

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **holder, Py_ssize_t size) except -1
    PyObject *new_bytes "PyBytes_FromStringAndSize" (const char *, Py_ssize_t) except NULL
    char *bytes_data "PyBytes_AS_STRING" (PyObject *) noexcept

cdef enum:
    BATCH_HEADER_BYTES = 256
    FRAME_HEADER_BYTES = 48
    ONE_FRAME_BATCH_BYTES = 304
    FIELDS_BYTES = 52           # of the batch header; the rest is reserved
    STAMP_BYTES = 24            # partition_id, base_offset, base_timestamp
    COVERED_BYTES = 44          # header bytes under the batch checksum: 0..40 and 48..52
    LOCAL_FRAMES = 1024         # frame checksums kept on the stack; bigger batches allocate

    # Answers of Iggy protocol 0.11, and of a walk over stored batches.
    INCOMPLETE_TAIL = 1
    INVALID_FORMAT = 4
    INVALID_MESSAGES_COUNT = 4009
    INVALID_MESSAGE_CHECKSUM = 4027
    INVALID_BATCH_CHECKSUM = 4039
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101

cdef uint64_t OFFSET_END_MAX = <uint64_t>1 << 62
cdef uint64_t COLUMN_BYTES_MAX = (<uint64_t>1 << 31) - 1
cdef uint8_t[204] ZEROS         # static storage: zero

cdef struct Batch:
    uint64_t length             # as the header says; may reach over the region's end
    uint64_t timestamp_us
    uint64_t origin_us
    int64_t first               # offset of the first message
    int64_t last
    uint32_t messages
    uint32_t delta              # of the first frame: more than 0 after a cut

cdef struct Covered:
    # What the batch checksum covers: header fields, then the checksum of every frame.
    uint8_t *data
    size_t length
    uint8_t[44 + 8 * 1024] local

cdef struct Growing:
    # A bytes object while it is being filled.
    PyObject *object
    uint64_t used
    uint64_t room

LEVEL_MAX = 2
iggy_xxh3_prepare(LEVEL_MAX)


cdef inline uint64_t load64(const uint8_t *at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint32_t load32(const uint8_t *at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline void store64(uint8_t *at, uint64_t value) noexcept nogil:
    memcpy(at, &value, 8)


cdef inline int64_t clamp(object number) except? -1:
    """A Python integer of any size, as near as 64 bits get."""
    cdef int overflow = 0
    cdef int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow != 0:
        return INT64_MAX if overflow > 0 else INT64_MIN
    return value


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


cdef int read_batch(const uint8_t *region, Py_ssize_t at, Py_ssize_t size, Batch *batch) except -1:
    """0 when the region ends before the first frame header does; raises at a broken header."""
    cdef const uint8_t *data = region + at
    cdef uint64_t base_offset
    if size - at < ONE_FRAME_BATCH_BYTES:
        return 0
    base_offset = load64(data + 8)
    batch.timestamp_us = load64(data + 16)
    batch.origin_us = load64(data + 24)
    batch.length = load64(data + 32)
    batch.messages = load32(data + 48)
    batch.delta = load32(data + BATCH_HEADER_BYTES + 24)
    if batch.length < ONE_FRAME_BATCH_BYTES:
        raise BrokenBatchError(at, f"batch_length {batch.length} has no room for a message")
    if not 0 < batch.messages <= (batch.length - BATCH_HEADER_BYTES) // FRAME_HEADER_BYTES:
        raise BrokenBatchError(
            at, f"message_count {batch.messages} does not fit batch_length {batch.length}"
        )
    if base_offset >= OFFSET_END_MAX:
        raise BrokenBatchError(at, f"base_offset {base_offset} is beyond {OFFSET_END_MAX}")
    batch.first = base_offset + batch.delta
    batch.last = batch.first + batch.messages - 1
    return 1


cdef inline uint64_t frame_end(
    const uint8_t *region, Py_ssize_t batch_at, const Batch *batch, uint64_t at, uint32_t index
) except 0:
    """Where frame `index` of a whole batch ends, both counted from the batch's first byte.

    Room for the headers of this frame and the ones behind it is always left: `read_batch` saw to
    the first, and every frame may take only what the rest do not need. So all bodies together
    never exceed what `columns` allocates for them, not even in a batch that turns out broken.
    """
    cdef uint64_t room = batch.length - at - FRAME_HEADER_BYTES * <uint64_t>(batch.messages - index)
    cdef const uint8_t *frame = region + batch_at + at
    cdef uint64_t body = <uint64_t>load32(frame + 32) + load32(frame + 36)
    if body > room:
        raise BrokenBatchError(batch_at, "frames run over the end of the batch")
    if load32(frame + 24) != <uint64_t>batch.delta + index:
        raise BrokenBatchError(
            batch_at,
            f"offset_delta {load32(frame + 24)} where {<uint64_t>batch.delta + index} belongs",
        )
    if index + 1 == batch.messages and body != room:
        raise BrokenBatchError(batch_at, "frames end before the batch does")
    return at + FRAME_HEADER_BYTES + body


cdef int incoming_fault(const uint8_t *data, Py_ssize_t size, Covered *covered) except -1:
    if size < BATCH_HEADER_BYTES or load64(data + 32) != <uint64_t>size:
        return INVALID_FORMAT
    return fault(data, size, 0, True, covered)


cdef int stored_fault(
    const uint8_t *data, Py_ssize_t left, int64_t expected_offset, bint hashed
) except -1:
    cdef Covered covered
    cdef uint64_t length, base_offset
    cdef uint32_t delta
    cdef int code
    if left < BATCH_HEADER_BYTES:
        return INCOMPLETE_TAIL
    length = load64(data + 32)
    if length < ONE_FRAME_BATCH_BYTES:
        return INVALID_FORMAT
    if length > <uint64_t>left:
        return INCOMPLETE_TAIL
    base_offset = load64(data + 8)
    delta = load32(data + BATCH_HEADER_BYTES + 24)
    covered.data = covered.local
    try:
        code = fault(data, length, delta, hashed, &covered)
    finally:
        free_covered(&covered)
    if code != 0:
        return code
    if base_offset >= OFFSET_END_MAX:
        return INVALID_OFFSET
    if expected_offset != -1 and expected_offset != <int64_t>(base_offset + delta):
        return INVALID_OFFSET
    return 0


cdef int fault(
    const uint8_t *data, uint64_t length, uint64_t delta, bint hashed, Covered *covered
) except -1:
    """Error code of a batch whose batch_length is its size; `covered` is filled if there is none."""
    cdef uint32_t messages = load32(data + 48), index
    cdef uint64_t left = length - BATCH_HEADER_BYTES, body
    cdef const uint8_t *frame = data + BATCH_HEADER_BYTES
    cdef uint8_t *checksum
    if messages == 0:
        return INVALID_MESSAGES_COUNT
    if messages > left // FRAME_HEADER_BYTES:
        return INVALID_FORMAT
    if memcmp(data + FIELDS_BYTES, ZEROS, BATCH_HEADER_BYTES - FIELDS_BYTES) != 0:
        return INVALID_RESERVED_FIELD
    cover(data, messages, covered)
    checksum = covered.data + COVERED_BYTES
    for index in range(messages):
        if left < FRAME_HEADER_BYTES:
            return INVALID_FORMAT
        left -= FRAME_HEADER_BYTES
        body = <uint64_t>load32(frame + 32) + load32(frame + 36)
        if body > left or load32(frame + 24) != delta + index:
            return INVALID_FORMAT
        if load64(frame + 40) != 0:
            return INVALID_RESERVED_FIELD
        if hashed and load64(frame) != iggy_xxh3(frame + 8, FRAME_HEADER_BYTES - 8 + body):
            return INVALID_MESSAGE_CHECKSUM
        memcpy(checksum, frame, 8)
        checksum += 8
        left -= body
        frame += FRAME_HEADER_BYTES + body
    if left != 0:
        return INVALID_FORMAT
    if load64(data + 40) != iggy_xxh3(covered.data, covered.length):
        return INVALID_BATCH_CHECKSUM
    return 0


cdef int cover(const uint8_t *header, uint32_t messages, Covered *covered) except -1:
    """Make room for the frames' checksums behind the covered header fields."""
    covered.length = COVERED_BYTES + 8 * <size_t>messages
    if messages > LOCAL_FRAMES:
        covered.data = <uint8_t *>PyMem_Malloc(covered.length)
        if covered.data == NULL:
            covered.data = covered.local
            raise MemoryError
    memcpy(covered.data, header, 40)
    memcpy(covered.data + 40, header + 48, 4)
    return 0


cdef inline void free_covered(Covered *covered) noexcept:
    if covered.data != covered.local:
        PyMem_Free(covered.data)


cdef int seal_frames(uint8_t *data, const Batch *batch) except -1:
    cdef Covered covered
    cdef uint64_t at = BATCH_HEADER_BYTES, end
    cdef uint32_t index
    covered.data = covered.local
    cover(data, batch.messages, &covered)
    try:
        for index in range(batch.messages):
            end = frame_end(data, 0, batch, at, index)
            store64(data + at, iggy_xxh3(data + at + 8, end - at - 8))
            memcpy(covered.data + COVERED_BYTES + 8 * <size_t>index, data + at, 8)
            at = end
        store64(data + 40, iggy_xxh3(covered.data, covered.length))
    finally:
        free_covered(&covered)
    return 0


cdef bytes cut(
    const uint8_t *region, Py_ssize_t batch_at, const Batch *batch, int64_t skip, int64_t take
):
    """`take` messages of a batch after the first `skip`, as a valid batch of their own."""
    cdef Covered covered
    cdef uint64_t at = BATCH_HEADER_BYTES, start, end
    cdef uint32_t index, messages = <uint32_t>take
    cdef const uint8_t *data = region + batch_at
    cdef uint8_t *out
    cdef bytes result
    for index in range(<uint32_t>skip):
        at = frame_end(region, batch_at, batch, at, index)
    start = at
    covered.data = covered.local
    cover(data, messages, &covered)
    try:
        for index in range(messages):
            end = frame_end(region, batch_at, batch, at, <uint32_t>skip + index)
            memcpy(covered.data + COVERED_BYTES + 8 * <size_t>index, data + at, 8)
            at = end
        result = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_BYTES + at - start)
        out = <uint8_t *>PyBytes_AS_STRING(result)
        memcpy(out, data, BATCH_HEADER_BYTES)
        store64(out + 32, BATCH_HEADER_BYTES + at - start)
        memcpy(out + 48, &messages, 4)
        memcpy(covered.data, out, 40)
        memcpy(covered.data + 40, out + 48, 4)
        store64(out + 40, iggy_xxh3(covered.data, covered.length))
        memcpy(out + BATCH_HEADER_BYTES, data + start, at - start)
        return result
    finally:
        free_covered(&covered)


cdef struct Layout:
    # Where the next message goes in each column.
    int64_t *offsets
    int64_t *timestamps_us
    int64_t *origin_timestamps_us
    uint8_t *ids
    int32_t *payload_offsets
    int32_t *header_offsets
    uint8_t *payloads           # has room for all bytes behind the frame headers
    uint64_t payload_bytes
    Growing headers             # usually few or none, so it starts with no room


cdef object lay_out(
    const uint8_t *region, Py_ssize_t size, int64_t first, int64_t end, uint64_t count,
    uint64_t room, bint verify
):
    """Fill the columns from a region whose batch headers were checked and counted."""
    cdef Layout out
    cdef Batch batch
    cdef Py_ssize_t at = 0
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef bytes timestamps_us = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef bytes origin_timestamps_us = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef bytes ids = PyBytes_FromStringAndSize(NULL, 16 * count)
    cdef bytes payload_offsets = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef bytes header_offsets = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef Growing payloads = Growing(NULL, 0, 0)
    out.offsets = <int64_t *>PyBytes_AS_STRING(offsets)
    out.timestamps_us = <int64_t *>PyBytes_AS_STRING(timestamps_us)
    out.origin_timestamps_us = <int64_t *>PyBytes_AS_STRING(origin_timestamps_us)
    out.ids = <uint8_t *>PyBytes_AS_STRING(ids)
    out.payload_offsets = <int32_t *>PyBytes_AS_STRING(payload_offsets)
    out.header_offsets = <int32_t *>PyBytes_AS_STRING(header_offsets)
    out.payload_offsets[0] = out.header_offsets[0] = 0
    out.payload_bytes = 0
    out.headers = Growing(NULL, 0, 0)
    try:
        grow(&payloads, room)
        grow(&out.headers, 0)
        out.payloads = <uint8_t *>bytes_data(payloads.object)
        while at < size:
            read_batch(region, at, size, &batch)
            if batch.first < end and batch.last >= first:
                lay_out_batch(region, at, &batch, first, end, verify, &out)
            at += batch.length
        payloads.used = out.payload_bytes
        return Columns(
            count, offsets, timestamps_us, origin_timestamps_us, ids,
            payload_offsets, filled(&payloads), header_offsets, filled(&out.headers),
        )
    finally:
        Py_XDECREF(payloads.object)
        Py_XDECREF(out.headers.object)


cdef int lay_out_batch(
    const uint8_t *region, Py_ssize_t batch_at, const Batch *batch, int64_t first, int64_t end,
    bint verify, Layout *out
) except -1:
    cdef int64_t timestamp_us = <int64_t>min(batch.timestamp_us, <uint64_t>INT64_MAX)
    cdef int64_t offset
    cdef uint64_t at = BATCH_HEADER_BYTES, next_at = at, origin_us
    cdef uint32_t index, payload_bytes, header_bytes
    cdef const uint8_t *frame
    for index in range(batch.messages):
        at = next_at
        next_at = frame_end(region, batch_at, batch, at, index)
        offset = batch.first + index
        if offset < first or offset >= end:
            continue
        frame = region + batch_at + at
        if verify and load64(frame) != iggy_xxh3(frame + 8, next_at - at - 8):
            raise BrokenBatchError(
                batch_at, f"message {offset} does not match its checksum", INVALID_MESSAGE_CHECKSUM
            )
        header_bytes = load32(frame + 32)
        payload_bytes = load32(frame + 36)
        origin_us = batch.origin_us + load32(frame + 28)
        if origin_us < batch.origin_us or origin_us > <uint64_t>INT64_MAX:
            origin_us = INT64_MAX
        out.offsets[0] = offset
        out.timestamps_us[0] = timestamp_us
        out.origin_timestamps_us[0] = <int64_t>origin_us
        memcpy(out.ids, frame + 8, 16)
        memcpy(out.payloads + out.payload_bytes, frame + FRAME_HEADER_BYTES, payload_bytes)
        out.payload_bytes += payload_bytes
        if header_bytes:
            append(&out.headers, frame + FRAME_HEADER_BYTES + payload_bytes, header_bytes)
        out.offsets += 1
        out.timestamps_us += 1
        out.origin_timestamps_us += 1
        out.ids += 16
        out.payload_offsets += 1
        out.header_offsets += 1
        out.payload_offsets[0] = <int32_t>out.payload_bytes
        out.header_offsets[0] = <int32_t>out.headers.used
    return 0


cdef int grow(Growing *bytes_, uint64_t room) except -1:
    if bytes_.object == NULL:
        bytes_.object = new_bytes(NULL, room)
    elif room != bytes_.room:
        _PyBytes_Resize(&bytes_.object, room)
    bytes_.room = room
    return 0


cdef inline int append(Growing *bytes_, const uint8_t *data, uint32_t length) except -1:
    if length > bytes_.room - bytes_.used:
        grow(bytes_, max(2 * bytes_.room, bytes_.used + length))
    memcpy(bytes_data(bytes_.object) + bytes_.used, data, length)
    bytes_.used += length
    return 0


cdef object filled(Growing *bytes_):
    grow(bytes_, bytes_.used)
    return <object>bytes_.object
