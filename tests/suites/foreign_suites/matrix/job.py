"""What every program of the matrix is told to do, and what it says of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

TOPIC, GROUP = "orders", "workers"
PARTITIONS, KEYS, PER_KEY = 4, 100, 100  # 10,000 messages, one request for each key
TOTAL = KEYS * PER_KEY
_FNV_START, _FNV_PRIME, _U64 = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


class Transport(StrEnum):
    """The columns of the matrix."""

    TCP = "tcp"
    TCP_TLS = "tcp+tls"
    WEBSOCKET = "websocket"
    WEBSOCKET_TLS = "websocket+tls"
    QUIC = "quic"
    HTTP = "http"

    @property
    def listener(self) -> str:
        """The broker's listener."""
        return self.value.partition("+")[0]

    @property
    def is_tls(self) -> bool:
        """Whether it needs the broker that speaks TLS where the other does not."""
        return self.value.endswith("+tls")


class Lack(StrEnum):
    """What a client has no call for, so that its round trip goes without."""

    KEYS = "keys"
    GROUP = "group"
    NAME = "name"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Job:
    """One round trip. `address`: HOST:PORT. `ca_file`: the broker's certificate, in PEM."""

    transport: Transport
    address: str
    username: str
    password: str
    ca_file: str
    stream: str

    def environment(self) -> dict[str, str]:
        """As programs get it."""
        return {
            "TRANSPORT": self.transport.value,
            "ADDRESS": self.address,
            "USERNAME": self.username,
            "PASSWORD": self.password,
            "CA_FILE": self.ca_file,
            "STREAM": self.stream,
            "TOPIC": TOPIC,
            "GROUP": GROUP,
            "PARTITIONS": str(PARTITIONS),
            "KEYS": str(KEYS),
            "PER_KEY": str(PER_KEY),
        }


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of a partition: how many, between which offsets, FNV-1a of the payloads."""

    count: int
    first: int
    last: int
    digest: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A program's line. `stored`: the offsets that it asked the server for, by partition."""

    read: Mapping[int, Read]
    stored: Mapping[int, int]
    lacks: frozenset[Lack]


def seen(line: str) -> Seen:
    """What a program printed. ValueError, KeyError, TypeError: it is not of this form."""
    said = json.loads(line)
    return Seen(
        {int(partition): Read(**one) for partition, one in said["read"].items()},
        {int(partition): offset for partition, offset in said["stored"].items()},
        frozenset(Lack(word) for word in said["lacks"]),
    )


def read_of(messages: Iterable[tuple[int, bytes]]) -> Read:
    """The same figures of offsets and payloads in the order in which they came."""
    count, first, last, digest = 0, -1, -1, _FNV_START
    for offset, payload in messages:
        first = offset if not count else first
        count, last = count + 1, offset
        for byte in payload:
            digest = (digest ^ byte) * _FNV_PRIME & _U64
    return Read(count, first, last, digest)
