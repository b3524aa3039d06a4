"""Faults planted at the calls that the operator makes, to a fake cluster or a fake broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iggy_operator.cluster import (
    ConflictError,
    ServerFailedError,
    ThrottledError,
    UnreachableError,
)

CLUSTER_FAULTS: list[Exception] = [
    ServerFailedError("500"),
    UnreachableError("cut"),
    ThrottledError("429", retry_after_s=3),
    ConflictError("409"),
]
"""What the API server, or the way to it, does at times."""


class Killed(BaseException):
    """The operator's process ends here. No code of it may catch this."""


@dataclass(frozen=True)
class Made:
    """One call: what, on what, and whether it changes anything."""

    verb: str
    what: str
    is_write: bool


@dataclass
class Faults:
    """Counts the calls and breaks some. `fail` sees each call before it is carried out."""

    calls: list[Made] = field(default_factory=list)
    fail: Callable[[Made], Exception | None] = lambda call: None
    lose: Callable[[Made], Exception | None] = lambda call: None
    """Sees each call after it was carried out: the answer is lost."""
    kill_after_write: int | None = None
    """Counts from 1: after that many writes the process ends."""

    def before(self, verb: str, what: object, *, is_write: bool) -> Made:
        call = Made(verb, str(what), is_write)
        self.calls.append(call)
        if (error := self.fail(call)) is not None:
            raise error
        return call

    def after(self, call: Made) -> None:
        if call.is_write and len(self.writes) == self.kill_after_write:
            raise Killed(call)
        if (error := self.lose(call)) is not None:
            raise error

    @property
    def writes(self) -> list[Made]:
        return [call for call in self.calls if call.is_write]

    def verbs(self, *verbs: str) -> list[Made]:
        return [call for call in self.calls if call.verb in verbs]
