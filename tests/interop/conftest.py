"""One broker with two shards for all interop tests that do not stop it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from broker_process import BrokerProcess, running_broker
from http_client import HttpClient, http_client
from iggy_client.client import Client
from raw_frames import RawClient


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(folder, shards=2, monitoring=True, transports=["http"]) as running:
        yield running


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Client]:
    """Root, on our own client."""
    with broker.client() as client:
        yield client


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    """Root, frame by frame."""
    with RawClient(broker.tcp_port) as client:
        client.login()
        yield client


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[HttpClient]:
    """Root, over HTTP."""
    with http_client(broker) as client:
        yield client


@pytest.fixture
def open_clients(broker: BrokerProcess) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
