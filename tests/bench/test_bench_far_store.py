"""The proxy that keeps each request of a store for a while."""

from __future__ import annotations

import os
import socket
import threading
import time

from iggy_bench.far_store import far_store

ANSWER = os.urandom(3 << 20)
DELAY_S = 0.02


def answer_two(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        for _ in range(2):
            assert connection.recv(100) == b"get"
            connection.sendall(ANSWER)


def test_each_request_is_kept_and_all_of_its_answer_comes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = threading.Thread(target=answer_two, args=(listener,))
        store.start()
        with far_store("127.0.0.1", listener.getsockname()[1], delay_s=DELAY_S) as address:
            host, port = address.split(":")
            with socket.create_connection((host, int(port))) as client:
                for _ in range(2):
                    asked_s = time.monotonic()
                    client.sendall(b"get")
                    first = client.recv(1)
                    assert time.monotonic() - asked_s >= DELAY_S
                    rest = bytearray(len(ANSWER) - 1)
                    assert client.recv_into(rest, 0, socket.MSG_WAITALL) == len(rest)
                    assert first + rest == ANSWER
        store.join()
