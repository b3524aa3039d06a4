"""One broker with two shards for all interop tests that do not stop it."""

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, running_broker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker"), shards=2, monitoring=True) as running:
        yield running
