"""What happened to objects while a test did something: every change, in order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from e2e_kubectl import Document, Kubectl
from waiting import wait_until

GONE = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of an object. Those that are there at the start come as ADDED."""

    kind: str
    value: Document
    at_s: float
    """When it was heard, monotonic."""

    @property
    def uid(self) -> str:
        return str(self.value["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.value["metadata"]["name"])


@contextmanager
def watching(kubectl: Kubectl, *what: str) -> Iterator[list[Event]]:
    """The changes of a kind's objects, for the length of a block; the list grows by itself."""
    seen: list[Event] = []
    words = ("get", *what, "--watch", "--output-watch-events", "--output=json")
    with kubectl.streamed(*words) as lines:
        reader = threading.Thread(target=_read, args=(lines, seen), daemon=True)
        reader.start()
        if kubectl.items(*what):
            wait_until(lambda: seen, f"the first look at {what}")
        yield seen


def _read(lines: Iterator[str], seen: list[Event]) -> None:
    for line in lines:
        found = json.loads(line)
        seen.append(Event(found["type"], found["object"], time.monotonic()))


def condition(value: Document, name: str = "Ready") -> Document:
    """A condition of an object; an empty one where there is none."""
    conditions = value.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == name), {})


def said(seen: list[Event], name: str, kind: str = "Ready") -> list[str]:
    """The values that a condition of an object had, one after the other."""
    found = (condition(event.value, kind).get("status", "") for event in seen if event.name == name)
    return [value for value, _ in groupby(found)]


def most_at_once(seen: list[Event]) -> int:
    """How many pods there were at most at a time: until they are gone or their work has ended."""
    living: set[str] = set()
    most = 0
    for event in seen:
        is_over = event.value["status"].get("phase") in ("Succeeded", "Failed")
        if event.kind == GONE or is_over:
            living.discard(event.uid)
        else:
            living.add(event.uid)
        most = max(most, len(living))
    return most
