"""The producer beside the main thread: sends what is missing, and stops when it is asked to."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pyarrow as pa

from flights_demo.plan import Request, missing, plan
from flights_demo.sending import connect, next_offsets, send


@dataclass(frozen=True, slots=True)
class Login:
    """Where the broker is and who sends."""

    address: str
    username: str
    password: str


class Sender:
    """Runs in a thread of its own. `there` and `sent` only grow; read them at any time."""

    def __init__(self, login: Login, target: tuple[str, str], flights: pa.Table) -> None:
        self.there = 0  # messages that the topic had before
        self.sent = 0  # messages that were sent and acknowledged by this run
        self.error: Exception | None = None
        self._login = login
        self._target = target
        self._flights = flights
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing after the request that is under way."""
        self._stop.set()
        self._thread.join()

    @property
    def is_done(self) -> bool:
        """Everything is sent, or it has failed: see `error`."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._send())
        except Exception as error:  # noqa: BLE001 -- handed to the main thread, which raises it
            self.error = error

    async def _send(self) -> None:
        login = self._login
        client = await connect(login.address, login.username, login.password)
        ends = await next_offsets(client, *self._target)
        self.there = sum(ends)
        planned = plan(self._flights["carrier"].to_pylist(), len(ends))
        await send(
            client, self._target, self._flights, list(missing(planned, ends)), sent=self._count
        )

    def _count(self, request: Request) -> bool:
        self.sent += len(request.rows)
        return not self._stop.is_set()
