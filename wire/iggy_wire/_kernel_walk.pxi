# How the compiled kernel walks bytes: batch headers, frames, faults, checksums, cuts.
# Included by _kernel.pyx; the plain twin is _kernel_plain_walk.py.

cdef extern from "_xxh3.h":
    int iggy_xxh3_prepare(int level_max) noexcept nogil
    uint64_t iggy_xxh3(const void *data, size_t length) noexcept nogil

cdef enum:
    BATCH_HEADER_BYTES = 256
    FRAME_HEADER_BYTES = 48
    ONE_FRAME_BATCH_BYTES = 304
    FIELDS_BYTES = 52           # of the batch header; the rest is reserved
    STAMP_BYTES = 24            # partition_id, base_offset, base_timestamp
    COVERED_BYTES = 44          # header bytes under the batch checksum: 0..40 and 48..52
    LOCAL_FRAMES = 1024         # frame checksums kept on the stack; bigger batches allocate
    PAYLOAD_BYTES_MAX = 64000000
    HEADERS_BYTES_MAX = 100000

    # Answers of Iggy protocol 0.11, and of a walk over stored batches.
    INCOMPLETE_TAIL = 1
    INVALID_FORMAT = 4
    INVALID_MESSAGES_COUNT = 4009
    TOO_BIG_USER_HEADERS = 4017
    TOO_BIG_MESSAGE_PAYLOAD = 4022
    EMPTY_MESSAGE_PAYLOAD = 4024
    INVALID_MESSAGE_CHECKSUM = 4027
    INVALID_BATCH_CHECKSUM = 4039
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101

cdef uint64_t OFFSET_END_MAX = <uint64_t>1 << 62
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
    uint8_t[44 + 8 * 1024] local        # COVERED_BYTES + 8 * LOCAL_FRAMES


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
    return fault(data, size, 0, True, True, covered)


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
        code = fault(data, length, delta, hashed, False, &covered)
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
    const uint8_t *data, uint64_t length, uint64_t delta, bint hashed, bint limited, Covered *covered
) except -1:
    """Error code of a batch whose batch_length is its size; `covered` is filled if there is none.

    `limited`: the limits of one message count, too.
    """
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
        if limited:
            if load32(frame + 36) == 0:
                return EMPTY_MESSAGE_PAYLOAD
            if load32(frame + 36) > PAYLOAD_BYTES_MAX:
                return TOO_BIG_MESSAGE_PAYLOAD
            if load32(frame + 32) > HEADERS_BYTES_MAX:
                return TOO_BIG_USER_HEADERS
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
