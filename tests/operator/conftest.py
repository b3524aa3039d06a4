"""A real broker for the tests that want one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One shard, for one test."""
    process = BrokerProcess(tmp_path, shards=1).start()
    try:
        yield process
    finally:
        process.end()
