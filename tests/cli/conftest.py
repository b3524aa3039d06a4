"""Fixtures of the tests of commands that talk to a broker."""

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A real one, with two shards."""
    with running_broker(tmp_path_factory.mktemp("broker"), shards=2) as running:
        yield running
