# Laying messages out as columns. Included by _kernel.pyx.

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **holder, Py_ssize_t size) except -1
    PyObject *new_bytes "PyBytes_FromStringAndSize" (const char *, Py_ssize_t) except NULL
    char *bytes_data "PyBytes_AS_STRING" (PyObject *) noexcept

cdef uint64_t COLUMN_BYTES_MAX = (<uint64_t>1 << 31) - 1

cdef struct Growing:
    # A bytes object while it is being filled.
    PyObject *object
    uint64_t used
    uint64_t room

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
