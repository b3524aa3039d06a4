"""Copies of a broker's data directory, taken and put back as a person does with a volume."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from broker_process import BrokerProcess


def taken(broker: BrokerProcess, folder: Path) -> Path:
    """A copy in `folder`: of a stopped broker whole, of one that runs and is not written to what a
    power cut would leave.
    """
    return Path(shutil.copytree(broker.data, folder))


def put_back(
    broker: BrokerProcess, copy: Path, *, before: Callable[[], object] | None = None
) -> None:
    """Kill the broker, give it `copy` in place of all that it has, and start it. `before` is done
    on another port first, where nobody else finds it.
    """
    broker.end()
    shutil.rmtree(broker.data)
    shutil.copytree(copy, broker.data)
    if before is not None:
        port, broker.tcp_port = broker.tcp_port, 0
        broker.start()
        before()
        broker.stop()
        broker.tcp_port = port
    broker.start()
