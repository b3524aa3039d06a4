"""Stretches of objects in a bucket, by addresses that are signed once for many of them.

A request by the S3 library takes 2 ms of CPU, nearly all of it to build and to sign: a reader of
old messages asks for a stretch of some MiB again and again, and this way it costs a tenth. The
library signs the address of an object for some minutes; any stretch of it can be asked for with
that. Python's own HTTP client reads it straight into the memory of who asks: those above it copy.
Whatever does not go as it should is the S3 library's to ask again, with its retries and its words:
then there is None. For several threads.
"""

from __future__ import annotations

import math
import os
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

FRESH_S: Final = 300
"""So long an address is used."""
ADDRESSES_MAX: Final = 1000
REST_S: Final = 60.0
"""After something went wrong the S3 library alone is asked for so long."""
_PARTIAL: Final = 206
_NOT_THERE: Final = frozenset({404, 416})  # the object, or any of the stretch

T = TypeVar("T")


class SignedReads:
    """Of one bucket. Connections are kept, as many as there are threads that read."""

    def __init__(self, sign: Callable[[str], str], *, connect_s: float, read_s: float) -> None:
        """`sign` gives the address of an object, which works for longer than `FRESH_S`."""
        self._sign = sign
        self._connect_s = connect_s
        self._read_s = read_s
        self._addresses: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []  # all addresses are of one host
        weakref.finalize(self, _close, self._idle)
        self._trust: ssl.SSLContext | None = None
        # Through a proxy is the S3 library's way: it knows all the settings for that.
        is_direct = getproxies().keys().isdisjoint({"http", "https", "all"})
        self._rests_until_s = 0.0 if is_direct else math.inf

    def read(self, key: str, size_bytes: int, position: int) -> bytes | None:
        """At most so many bytes from `position`; None: ask the S3 library.

        What that raises when it signs.
        """
        return self._read(key, (position, size_bytes), _all_of)

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int | None:
        """Fill memory with bytes from `position` on: how many, as many as there are.

        None: ask the S3 library. What that raises when it signs.
        """
        size_bytes = sum(map(len, memory))
        return self._read(key, (position, size_bytes), lambda answer: _fill(answer, memory))

    def _read(
        self, key: str, stretch: tuple[int, int], take: Callable[[HTTPResponse], T]
    ) -> T | None:
        if time.monotonic() < self._rests_until_s:
            return None
        position, size_bytes = stretch
        wanted = {"Range": f"bytes={position}-{position + size_bytes - 1}"}
        try:
            connection, answer = self._ask(urlsplit(self._address(key)), wanted)
            try:
                taken = _taken(answer, size_bytes, take)
            except BaseException:
                connection.close()
                raise
        except (HTTPException, OSError):
            self._rests_until_s = time.monotonic() + REST_S
            taken = None
        else:
            if connection.sock is not None:  # else it was for one answer
                self._idle.append(connection)
        if taken is None:
            self._addresses.pop(key, None)
        return taken

    def _ask(
        self, address: SplitResult, headers: dict[str, str]
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """An answer with its status and headers. HTTPException, OSError."""
        target = f"{address.path}?{address.query}"
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            connection = kept or self._connection(address)
            try:
                if kept is None:
                    connection.connect()
                    connection.sock.settimeout(self._read_s)
                connection.request("GET", target, headers=headers)
                return connection, connection.getresponse()
            except (HTTPException, OSError) as error:
                connection.close()
                # Kept too long, it was ended at the other side.
                if kept is None or not isinstance(error, ConnectionError | ssl.SSLError):
                    raise

    def _connection(self, address: SplitResult) -> HTTPConnection:
        host, port = address.hostname or "", address.port
        if address.scheme == "https":
            return HTTPSConnection(host, port, timeout=self._connect_s, context=self._trusted())
        return HTTPConnection(host, port, timeout=self._connect_s)

    def _trusted(self) -> ssl.SSLContext:
        """Who signs certificates of stores: as for the S3 library, by its variable."""
        with self._lock:
            if self._trust is None:
                authorities = os.environ.get("AWS_CA_BUNDLE") or None
                self._trust = ssl.create_default_context(cafile=authorities)
        return self._trust

    def _address(self, key: str) -> str:
        now_s = time.monotonic()
        with self._lock:
            signed_s, address = self._addresses.get(key, (0.0, ""))
            if not address or now_s - signed_s > FRESH_S:
                if len(self._addresses) >= ADDRESSES_MAX:
                    self._addresses.clear()
                address = self._sign(key)
                self._addresses[key] = now_s, address
        return address


def _taken(answer: HTTPResponse, size_bytes: int, take: Callable[[HTTPResponse], T]) -> T | None:
    """None: what was asked for is not there. HTTPException: it is no answer to that. OSError."""
    if answer.status in _NOT_THERE:
        answer.read()
        return None
    if answer.status != _PARTIAL or not 0 <= _length(answer) <= size_bytes:
        raise HTTPException(f"status {answer.status}, {answer.length} of {size_bytes} bytes")
    return take(answer)


def _length(answer: HTTPResponse) -> int:
    """Bytes of its body; -1: it does not say."""
    return -1 if answer.length is None else answer.length


def _all_of(answer: HTTPResponse) -> bytes:
    return answer.read()


def _fill(answer: HTTPResponse, memory: Sequence[memoryview]) -> int:
    """How much came. HTTPException: less than was said."""
    said, filled = _length(answer), 0
    for piece in memory:
        wanted = min(len(piece), said - filled)
        if wanted and answer.readinto(piece[:wanted]) != wanted:
            raise HTTPException(f"of {said} bytes less came")
        filled += wanted
    answer.close()
    return filled


def _close(idle: list[HTTPConnection]) -> None:
    for connection in idle:
        connection.close()
