"""Many idle clients in one process of their own: `idle_crowd.py PORT COUNT`.

Each connects, logs in and then is silent. Prints how many are in, holds them until its standard
input ends, and closes them: half in good order, half by a reset.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker_process import PASSWORD, USERNAME
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.header import HEADER_BYTES, RequestHeader, frame_bytes
from iggy_wire.requests import Login

AT_ONCE: Final = 250  # connect and log in together
ANSWER_S: Final = 60.0


def join(port: int, first: int, count: int) -> list[socket.socket]:
    """Some clients who are in. ConnectionError if one is not let in."""
    body = Login(P11.version, "crowd", "1", USERNAME, PASSWORD).encode()
    size = HEADER_BYTES + len(body)
    crowd = [socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) for _ in range(count)]
    for number, sock in enumerate(crowd, first + 1):
        client = number.to_bytes(16, "little")
        sock.sendall(RequestHeader(Operation.REGISTER, client, size=size).encode() + body)
    for sock in crowd:
        head = sock.recv(HEADER_BYTES, socket.MSG_WAITALL)
        if len(head) < HEADER_BYTES or frame_bytes(head) == HEADER_BYTES:
            raise ConnectionError("not let in")
        sock.recv(frame_bytes(head) - HEADER_BYTES, socket.MSG_WAITALL)
    return crowd


def main(port: int, count: int) -> None:
    crowd: list[socket.socket] = []
    while len(crowd) < count:
        crowd += join(port, len(crowd), min(AT_ONCE, count - len(crowd)))
    print(len(crowd), flush=True)  # noqa: T201 -- what the test waits for
    sys.stdin.read()
    for number, sock in enumerate(crowd):
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


@contextlib.contextmanager
def idle_crowd(port: int, count: int) -> Iterator[None]:
    """So many idle clients for the length of a block."""
    folders = [str(Path(__file__).parent), *sys.path]
    process = subprocess.Popen(
        [sys.executable, __file__, str(port), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(folders)},
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == f"{count}\n".encode(), "the crowd is not let in"
        yield
        process.stdin.close()
        assert process.wait(ANSWER_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
