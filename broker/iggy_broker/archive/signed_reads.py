"""Stretches of objects in a bucket, by addresses that are signed once for many of them.

A request by the S3 library takes 2 ms of CPU, nearly all of it to build and to sign: a reader of
old messages asks for a stretch of 4 MiB again and again, and this way it costs a tenth. The library
signs the address of an object for some minutes; any stretch of it can be asked for with that, by
the HTTP library below it. Whatever does not go as it should is the S3 library's to ask again, with
its retries and its words: then `read` gives None. For several threads.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.request import getproxies

import urllib3
from urllib3.exceptions import HTTPError

FRESH_S: Final = 300
"""So long an address is used."""
ADDRESSES_MAX: Final = 1000
CONNECTIONS_MAX: Final = 16
REST_S: Final = 60.0
"""After something went wrong the S3 library alone is asked for so long."""
_PARTIAL: Final = 206
_NOT_THERE: Final = frozenset({404, 416})  # the object, or any of the stretch

# Its lines of level debug would have the signature.
logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)


class SignedReads:
    """Of one bucket."""

    def __init__(self, sign: Callable[[str], str], *, connect_s: float, read_s: float) -> None:
        """`sign` gives the address of an object, which works for longer than `FRESH_S`."""
        self._sign = sign
        self._addresses: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        # Through a proxy is the S3 library's way: it knows all the settings for that.
        is_direct = getproxies().keys().isdisjoint({"http", "https", "all"})
        self._rests_until_s = 0.0 if is_direct else math.inf
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS_MAX,
            retries=False,
            timeout=urllib3.Timeout(connect=connect_s, read=read_s),
            **_trust(),
        )

    def read(self, key: str, size_bytes: int, position: int) -> bytes | None:
        """At most so many bytes from `position`; None: ask the S3 library.

        What that raises when it signs.
        """
        if time.monotonic() < self._rests_until_s:
            return None
        wanted = {"Range": f"bytes={position}-{position + size_bytes - 1}"}
        try:
            answer = self._pool.request("GET", self._address(key), headers=wanted)
        except HTTPError:
            self._rests_until_s = time.monotonic() + REST_S
            return None
        if answer.status == _PARTIAL and len(answer.data) <= size_bytes:
            return answer.data
        self._addresses.pop(key, None)
        if answer.status not in _NOT_THERE:
            self._rests_until_s = time.monotonic() + REST_S
        return None

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


def _trust() -> dict[str, Any]:
    """Who signs certificates of stores: as for the S3 library, by its variable."""
    authorities = os.environ.get("AWS_CA_BUNDLE")
    return {"ca_certs": authorities} if authorities else {}
