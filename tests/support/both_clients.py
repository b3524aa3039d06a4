"""One way to call both clients, so that one test speaks for the two."""

import asyncio
from typing import Any

from iggy_client import AsyncClient, Client, Tls


class Awaited:
    """An `AsyncClient` whose methods wait: each call runs its loop until the answer is there."""

    def __init__(self, runner: asyncio.Runner, client: AsyncClient) -> None:
        self._runner = runner
        self._client = client

    @property
    def is_open(self) -> bool:
        return self._client.is_open

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self._runner.run(method(*args, **kwargs))


class Clients:
    """Makes clients of one kind and closes them at the end."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = asyncio.Runner()
        self._made: list[Any] = []

    def connect(self, address: str, *, timeout_s: float = 10.0) -> Any:
        """A client that is logged in."""
        return self._keep(
            Client.connect(address, "iggy", "iggy", timeout_s=timeout_s)
            if self.kind == "blocking"
            else self._run(AsyncClient.connect(address, "iggy", "iggy", timeout_s=timeout_s))
        )

    def open(self, address: str, *, timeout_s: float = 10.0, tls: Tls | None = None) -> Any:
        """A client that is not logged in."""
        return self._keep(
            Client(address, timeout_s=timeout_s, tls=tls)
            if self.kind == "blocking"
            else self._run(AsyncClient.open(address, timeout_s=timeout_s, tls=tls))
        )

    def close(self) -> None:
        """Close every client and the loop."""
        for client in self._made:
            client.close()
        self._runner.close()

    def _run(self, connecting: Any) -> Awaited:
        return Awaited(self._runner, self._runner.run(connecting))

    def _keep(self, client: Any) -> Any:
        self._made.append(client)
        return client
