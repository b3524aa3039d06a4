"""A client that pings by itself, for those who call rarely and must not lose their membership.

Iggy protocol 0.11: a member of a consumer group that is silent for 1.2 heartbeat intervals (36 s by
default) is sent away, and its partitions go to the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError

INTERVAL_S: Final = 5.0  # as official clients ping


class KeptAlive:
    """A blocking client that several threads may use in turn, one of which pings.

        with KeptAlive(Client.connect(...)) as kept:
            with kept.use() as client:
                client.join_group("stream", "topic", "group")

    A ping that fails is kept quiet: the next `use` gives a client that is closed, whose calls raise
    `LinkError`. Call its `reconnect` and join again.
    """

    def __init__(self, client: Client, *, interval_s: float = INTERVAL_S) -> None:
        """Ping `client` whenever it was not used for `interval_s`. The client is ours from now."""
        self._client = client
        self._interval_s = interval_s
        self._turn = threading.Lock()
        self._due_s = time.monotonic() + interval_s  # when to ping, unless it is used before
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="iggy-keep-alive", daemon=True)
        self._thread.start()

    def __enter__(self) -> KeptAlive:
        """Itself; closed at the end of the block."""
        return self

    def __exit__(self, *details: object) -> None:
        """Close."""
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the client can be used, as far as the last call or ping has shown."""
        return self._client.is_open

    @contextmanager
    def use(self) -> Iterator[Client]:
        """The client, for this thread alone until the end of the block."""
        with self._turn:
            yield self._client
            self._postpone()

    def close(self) -> None:
        """Stop pinging and close the client, which leaves its groups. May be repeated."""
        self._over.set()
        self._thread.join()
        with self._turn:
            self._client.close()

    def _run(self) -> None:
        while not self._over.wait(self._due_s - time.monotonic()):
            with self._turn:
                if time.monotonic() < self._due_s:
                    continue
                if self._client.is_open:
                    self._ping()
                self._postpone()

    def _postpone(self) -> None:
        self._due_s = time.monotonic() + self._interval_s

    def _ping(self) -> None:
        try:
            self._client.ping()
        except (ClientError, LinkError):
            self._client.close()  # whoever uses it next is told
