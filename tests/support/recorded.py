"""Frames recorded between the released Python client 0.9.0 and a server of protocol 0.11.0."""

import json
from dataclasses import dataclass
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "wire" / "vectors"


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, whole frames. Either may be missing."""

    name: str
    request: bytes | None
    reply: bytes | None


def exchanges() -> list[Exchange]:
    """All recorded exchanges, in the order they happened."""
    lines = (VECTORS / "p11.jsonl").read_text().splitlines()
    return [_exchange(json.loads(line)) for line in lines]


def exchange(name: str) -> Exchange:
    """The exchange of this name, such as `real/010_send_messages`."""
    return next(one for one in exchanges() if one.name == name)


def session(direction: str) -> bytes:
    """All bytes of one connection; direction `c2s` or `s2c`."""
    return bytes.fromhex((VECTORS / f"p11-session.{direction}.hex").read_text())


def _exchange(raw: dict[str, str | None]) -> Exchange:
    request, reply = raw["request"], raw["reply"]
    return Exchange(
        name=str(raw["name"]),
        request=None if request is None else bytes.fromhex(request),
        reply=None if reply is None else bytes.fromhex(reply),
    )
