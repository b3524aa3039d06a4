"""A session recorded with a real server of protocol 0.11.0, played to our broker: same answers.

Left out of the comparison: times, ids of connections and sessions, addresses, versions, usage, and
the option blocks, in which servers of one protocol version differ among themselves.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_process import running_broker
from iggy_wire.batch import messages
from iggy_wire.codes import Command, is_result_framed
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.framing import FrameReader
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.replies import Polled
from iggy_wire.requests import command_of
from iggy_wire.results import split_result
from raw_frames import RawClient
from recorded import session

VARYING = {
    "created_at_us", "session", "server_version", "options", "derived", "address", "client_id",
    "tcp_port", "quic_port", "http_port", "websocket_port", "segments_count", "token",
}  # fmt: skip
# Figures of a machine and of a version.
DEPENDENT = {Command.GET_STATS, Command.DESCRIBE_OPTIONS}


def frames(direction: str) -> list[bytes]:
    return [bytes(frame) for frame in FrameReader(1 << 20).feed(session(direction))]


def command(request: bytes) -> Command | None:
    try:
        return command_of(RequestHeader.decode(request))
    except WireError:
        return None


def told(request: bytes, reply: bytes) -> Any:
    """What a reply says, without what differs from server to server."""
    header, body = ReplyHeader.decode(reply), memoryview(reply)[HEADER_BYTES:]
    if header.status:
        return ErrorCode(header.status).name
    if is_result_framed(header.operation, len(body)):
        code, body = split_result(body)
        if code:
            return ErrorCode(code).name
    layout = P11.replies.get(command(request) or 0)
    if layout is None or not body:
        return bytes(body)
    value = layout.decode(body)
    if isinstance(value, Polled):
        read = [(one.offset, one.payload, one.headers, one.id) for one in messages(value.region)]
        return value.partition_id, value.current_offset, value.count, read
    return without_varying(msgspec.to_builtins(value))


def without_varying(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_varying(item) for key, item in value.items() if key not in VARYING}
    if isinstance(value, list | tuple):
        return [without_varying(item) for item in value]
    return value


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[bytes, bytes, bytes]]]:
    """Every request of the session with the recorded reply and ours."""
    folder: Path = tmp_path_factory.mktemp("played")
    exchanges = list(zip(frames("c2s"), frames("s2c"), strict=True))
    with (
        # One shard: the recorded client asks for the connection with the number 1.
        running_broker(folder, shards=1, settings={"IGGY_ROOT_PASSWORD": "iggy"}) as broker,
        RawClient(broker.tcp_port) as client,
    ):
        played = []
        for request, theirs in exchanges:
            if told(request, theirs) == "UNSUPPORTED_OPTION_KEY":
                continue  # a topic option that the recorded server was too old for
            client.send(request)
            header, body = client.receive()
            played.append((request, theirs, header.encode() + body))
    yield played


def test_the_answers_are_those_of_the_recorded_server(
    played: list[tuple[bytes, bytes, bytes]],
) -> None:
    compared = 0
    for request, theirs, ours in played:
        asked = command(request)
        if asked in DEPENDENT:
            continue
        assert told(request, ours) == told(request, theirs), asked
        compared += 1

    assert compared >= 61


def test_every_reply_echoes_its_request(played: list[tuple[bytes, bytes, bytes]]) -> None:
    for request, _, ours in played:
        asked, header = RequestHeader.decode(request), ReplyHeader.decode(ours)

        assert header.size == len(ours)
        assert (header.client, header.request) == (asked.client, asked.request)
        assert header.request_checksum == asked.request_checksum
