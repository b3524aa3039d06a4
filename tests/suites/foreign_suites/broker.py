"""A fresh broker on the ports that are written into the suites."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_process import BrokerProcess

TCP_PORT = 8090
USERNAME = PASSWORD = "iggy"  # written into the suites, like the port


class PortTaken(Exception):
    """Another broker listens where ours must."""


@contextmanager
def default_broker(run: Path) -> Iterator[BrokerProcess]:
    """A broker with an empty data directory, for the length of a block.

    Its log stays in `run`, its data does not. PortTaken: something listens on the port already.
    AssertionError: it did not start, or did not stop with exit code 0.
    """
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", TCP_PORT)) == 0:
            raise PortTaken(f"something listens on port {TCP_PORT}: stop it and try again")
    broker = BrokerProcess(run, settings={"IGGY_ROOT_PASSWORD": PASSWORD})
    broker.tcp_port = TCP_PORT
    broker.start()
    try:
        yield broker
        code = broker.stop()
        assert code == 0, f"the broker ended with {code}: {broker.log}"
    finally:
        broker.end()
        shutil.rmtree(broker.data, ignore_errors=True)
