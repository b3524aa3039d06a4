"""Frames recorded with official Python clients.

P11: the released 0.9.0 with a server of protocol 0.11.0. P12: the pre-release 0.9.1.dev5 with a
throwaway server, which it took for one: the layouts are right, the values made up.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from iggy_wire.dialect import P11, Dialect

VECTORS = Path(__file__).parents[1] / "wire" / "vectors"


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, whole frames. Either may be missing."""

    name: str
    request: bytes | None
    reply: bytes | None
    dialect: Dialect = P11


def exchanges(dialect: Dialect = P11) -> list[Exchange]:
    """All recorded exchanges of P11, or of P12, in the order they happened."""
    lines = (VECTORS / f"{dialect.name.lower()}.jsonl").read_text().splitlines()
    return [_exchange(json.loads(line), dialect) for line in lines]


def exchange(name: str) -> Exchange:
    """The exchange of this name, such as `real/010_send_messages`."""
    return next(one for one in exchanges() if one.name == name)


def session(direction: str) -> bytes:
    """All bytes of one connection; direction `c2s` or `s2c`."""
    return bytes.fromhex((VECTORS / f"p11-session.{direction}.hex").read_text())


def _exchange(raw: dict[str, str | None], dialect: Dialect) -> Exchange:
    request, reply = raw["request"], raw["reply"]
    return Exchange(
        name=str(raw["name"]),
        request=None if request is None else bytes.fromhex(request),
        reply=None if reply is None else bytes.fromhex(reply),
        dialect=dialect,
    )
