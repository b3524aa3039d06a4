"""Passwords are hashed and verified in threads, and few at a time.

Each takes tens of milliseconds and megabytes. Whoever gave the right one lately is known by a keyed
hash of it, and who gives the same while it is verified waits for that answer, so that a storm of
reconnects costs one; a wrong password always takes the slow road, and as long for nobody as for
somebody.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from iggy_broker.errors import Deny
from iggy_broker.metadata import credentials
from iggy_broker.metadata.model import User
from iggy_wire.errors import ErrorCode

T = TypeVar("T")

HASHING_MAX: Final = 2  # password hashes at a time; the others queue in the executor
WAITING_MAX: Final = 1024  # per shard; beyond, whoever asks may try again later
KNOWN_MAX: Final = 4096  # good passwords remembered, as keyed hashes; then all are forgotten

USERNAME_BYTES: Final = range(3, 51)
PASSWORD_BYTES: Final = range(3, 101)


class Passwords:
    """The slow work of one shard, off its loop."""

    __slots__ = ("_being_verified", "_executor", "_key", "_known", "_waiting")

    def __init__(self) -> None:
        """Threads start with the first password, so this may be made before a fork."""
        self._executor = ThreadPoolExecutor(HASHING_MAX, thread_name_prefix="password")
        self._key = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        self._being_verified: dict[bytes, asyncio.Future[bool]] = {}  # of WAITING_MAX at most
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many are being hashed, or wait for it."""
        return self._waiting

    async def logs_in(self, user: User | None, password: str) -> bool:
        """Whether this is an active user's password. As slow for nobody as for somebody.

        Deny when too many wait.
        """
        stored = credentials.NOBODY if user is None else user.password_hash
        mark = self._mark(stored, password)
        if user is not None and mark in self._known:
            return user.active
        verified = self._being_verified.get(mark)
        if verified is None:
            self._check_queue()
            verified = self._run(credentials.verify, stored, password)
            self._being_verified[mark] = verified
            verified.add_done_callback(lambda _: self._being_verified.pop(mark))
        good = await asyncio.shield(verified)
        if not good or user is None or not user.active:
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(mark)
        return True

    async def fits(self, user: User, password: str) -> bool:
        """Whether this is the user's password, active or not. Deny when too many wait."""
        self._check_queue()
        return await self._run(credentials.verify, user.password_hash, password)

    async def hash(self, password: str) -> str:
        """The text to store for a new password. Deny when too many wait."""
        self._check_queue()
        return await self._run(credentials.hash_password, password)

    def close(self) -> None:
        """Let the threads end."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _check_queue(self) -> None:
        if self._waiting >= WAITING_MAX:
            detail = f"{WAITING_MAX} passwords wait to be hashed; try again"
            raise Deny(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail)

    def _run(self, work: Callable[..., T], *arguments: str) -> asyncio.Future[T]:
        """Queue it now: whoever comes in the same turn of the loop finds it counted."""
        running = asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)
        self._waiting += 1
        running.add_done_callback(self._on_done)
        return running

    def _on_done(self, running: asyncio.Future[Any]) -> None:
        self._waiting -= 1

    def _mark(self, stored: str, password: str) -> bytes:
        # A changed password has another stored hash (and salt), so its old mark never matches.
        return hmac.digest(self._key, f"{stored}\0{password}".encode(), hashlib.sha256)
