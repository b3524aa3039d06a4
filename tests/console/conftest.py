"""One broker and one window of a real Chromium for all tests of the console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, running_broker
from chromium import Browser, open_browser
from console_window import SECRET, Console
from http_client import HttpClient, http_client

SETTINGS = {
    "IGGY_HTTP_JWT_ENCODING_SECRET": SECRET,
    "IGGY_HTTP_JWT_CLOCK_SKEW": "0 s",  # a token ends when it says
}


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("console")
    with running_broker(folder, transports=["http"], settings=SETTINGS) as running:
        yield running
        assert "http_failed" not in running.text()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="package")
def home(broker: BrokerProcess) -> str:
    """The address of the broker."""
    return f"http://127.0.0.1:{broker.ports['http']}"


@pytest.fixture
def console(browser: Browser, home: str) -> Iterator[Console]:
    """Whatever is done in it, it asks nobody else, breaks no rule of its own and has no bugs."""
    opened = Console(browser, home)
    yield opened
    assert browser.complaints() == []
    asked = [url for url in browser.requests() if not url.startswith(("data:", "blob:"))]
    assert asked
    assert [url for url in asked if not url.startswith(opened.home + "/")] == []


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[HttpClient]:
    with http_client(broker) as client:
        yield client
