"""Recorded exchanges of the original's HTTP API, and how an answer of ours is compared with one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from http_client import Answer

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "spec" / "captures" / "http"

HEADERS = (
    "content-type", "iggy-view", "iggy-durability", "retry-after", "connection", "allow",
    "access-control-allow-origin", "access-control-expose-headers",
    "access-control-allow-methods", "access-control-allow-headers",
)  # fmt: skip

# Differ from run to run, or are for people.
PASSING = frozenset(
    {"created_at", "timestamp", "origin_timestamp", "checksum", "token", "expiry", "expiry_at",
     "reason", "description", "id128"}
)  # fmt: skip
# Of this machine and process, or made asynchronously there.
OF_THE_PLACE = frozenset(
    {"process_id", "cpu_usage", "total_cpu_usage", "memory_usage", "total_memory",
     "available_memory", "run_time", "start_time", "read_bytes", "written_bytes", "hostname",
     "os_name", "os_version", "kernel_version", "iggy_server_version", "iggy_server_semver",
     "threads_count", "free_disk_space", "total_disk_space", "tcp", "quic", "http", "websocket",
     "client_id", "address", "segments_count"}
)  # fmt: skip
_U64 = 1 << 64


@dataclass(frozen=True)
class Capture:
    """One exchange."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    response: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Capture | None:
        """None for a file that is no exchange."""
        found = json.loads(path.read_text())
        request = found.get("request")
        if request is None:
            return None
        body = request.get("body_text")
        if "body" in request:
            body = json.dumps(request["body"])
        headers = dict(request.get("headers", {}))
        if "body" in request:
            headers.setdefault("Content-Type", "application/json")
        sent = None if body is None else str(body).encode()
        return cls(path.stem, request["method"], request["path"], headers, sent, found["response"])


def recorded() -> list[Capture]:
    """All exchanges, in the order in which they were made."""
    files = sorted(FOLDER.glob("*.json"), key=lambda one: (one.name.split("_")[0], one.name))
    found = [Capture.read(one) for one in files]
    return sorted((one for one in found if one is not None), key=_order)


def differences(capture: Capture, answer: Answer) -> list[str]:
    """Where our answer is not what was recorded, as far as that is fixed."""
    wanted = capture.response
    if answer.status != wanted["status"]:
        return [f"status {wanted['status']}, ours {answer.status}: {answer.body[:200]!r}"]
    found = _headers(wanted.get("headers"), answer)
    text = wanted.get("body_text")
    if wanted.get("body") is not None:
        return found + _compared(wanted["body"], answer.json, "")
    if text == "" and answer.body:
        return [*found, f"no body, ours {answer.body[:100]!r}"]
    if text and wanted["status"] >= 400 and not answer.body.decode().startswith(_fixed(text)):
        return [*found, f"text {text!r}, ours {answer.body!r}"]
    return found


def _fixed(text: str) -> str:
    """What of a text does not depend on the parser."""
    return text.split(":")[0]


def _headers(wanted: dict[str, str] | None, answer: Answer) -> list[str]:
    if wanted is None:
        return []
    of_recorder = "access-control-allow-origin" not in wanted  # CORS was off there
    names = [one for one in HEADERS if not (of_recorder and one.startswith("access-control"))]
    return [
        f"{name}: {wanted.get(name)!r}, ours {answer.headers.get(name)!r}"
        for name in names
        if wanted.get(name) != answer.headers.get(name)
    ]


def _compared(there: Any, here: Any, path: str) -> list[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        if there.keys() != here.keys():
            return [f"{path}: keys {sorted(there)}, ours {sorted(here)}"]
        found = []
        for key, value in there.items():
            found += _field(key, value, here[key], f"{path}.{key}")
        return found
    if isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            return [f"{path}: {len(there)} items, ours {len(here)}"]
        pairs = enumerate(zip(there, here, strict=True))
        return [line for at, (a, b) in pairs for line in _compared(a, b, f"{path}[{at}]")]
    return [] if there == here else [f"{path}: {there!r}, ours {here!r}"]


def _field(key: str, there: Any, here: Any, path: str) -> list[str]:
    is_random_id = key == "id" and isinstance(there, int) and there >= _U64
    if is_random_id and isinstance(here, int) and here >= _U64:
        return []
    if key in PASSING | OF_THE_PLACE:
        numbers = isinstance(there, int | float) and isinstance(here, int | float)
        alike = numbers or type(there) is type(here) or (there is None) == (here is None)
        return [] if alike else [f"{path}: {there!r}, ours {here!r}"]
    return _compared(there, here, path)


def _order(capture: Capture) -> tuple[str, str]:
    """370 to 381 have a fourth digit for those that were made one after another."""
    number = re.match(r"\d+", capture.name)
    assert number is not None, capture.name
    return number[0], capture.name
