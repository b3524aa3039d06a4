"""What the library of QUIC (`aioquic`) keeps to itself and we need: its own limits have no end.

The lock pins its version; the tests of QUIC fail when another one calls these things otherwise.
"""

from __future__ import annotations

from aioquic.quic.connection import QuicConnection


def limit_streams(quic: QuicConnection, most: int) -> None:
    """How many streams of requests may be open at once. Others are refused."""
    quic._local_max_streams_bidi.value = quic._local_max_streams_bidi.sent = most
    quic._local_max_streams_uni.value = quic._local_max_streams_uni.sent = 0


def reached_offsets(quic: QuicConnection) -> int:
    """How far the open streams of the client reach, together: memory, if there are gaps."""
    return sum(
        stream.receiver.highest_offset
        for stream in quic._streams.values()
        if not stream.receiver.is_finished
    )


def kept_bytes(quic: QuicConnection, stream_id: int) -> int:
    """What was written to a stream and is not acknowledged."""
    stream = quic._streams.get(stream_id)
    return 0 if stream is None else len(stream.sender._buffer)


def can_send(quic: QuicConnection, stream_id: int) -> bool:
    """Whether the client still wants to read from a stream."""
    stream = quic._streams.get(stream_id)
    return stream is not None and stream.sender._reset_error_code is None
