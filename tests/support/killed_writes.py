"""Work that is killed at one of its requests to a store, or at one of its renames in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.client import BaseClient


class Killed(BaseException):
    """Stands for SIGKILL: nobody handles it, and nothing runs after it but the next start."""


class Requests:
    """Counts requests to the store; `before` the one of a number something happens."""

    def __init__(self) -> None:
        self.made = 0
        self.before: dict[int, Callable[[], None]] = {}
        self.is_dead = False

    def die(self) -> None:
        self.is_dead = True
        raise Killed

    @contextmanager
    def counted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(BaseClient, "_make_api_call", self._one(BaseClient._make_api_call))
            yield

    @contextmanager
    def renames_counted(self) -> Iterator[None]:
        """The same of renames in a folder."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "replace", self._one(os.replace))
            yield

    def _one(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def one(*given: Any) -> Any:
            if self.is_dead:
                raise Killed
            number, self.made = self.made, self.made + 1
            if hook := self.before.pop(number, None):
                hook()
            return real(*given)

        return one


def killed_at(number: int, work: Callable[[], object], *, renames: bool = False) -> bool:
    """Run something that is killed when it has made so many requests; False: it made no more."""
    requests = Requests()
    requests.before[number] = requests.die
    with requests.renames_counted() if renames else requests.counted():
        try:
            work()
        except Killed:
            return True
    return False
