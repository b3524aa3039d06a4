"""A scripted server, and both clients to ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from both_clients import Clients
from scripted_server import ScriptedServer


@pytest.fixture(params=["blocking", "async"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made = Clients(request.param)
    yield made
    made.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running
