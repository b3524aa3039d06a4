"""What a broker's pod itself says of its archive."""

from __future__ import annotations

import asyncio

from e2e_kubectl import Document
from iggy_operator.desired.transports import MONITORING_PORT
from iggy_operator.figures import PREFIX, ArchiveFigures, archive_figures
from iggy_operator.program.broker_metrics import read_metrics

LATE_S = 3.0
"""The figures of a shard are those of its last look, and the shard publishes them a while later."""


def figures(pod: Document) -> ArchiveFigures:
    """Its metrics about it."""
    address = f"{pod['status']['podIP']}:{MONITORING_PORT}"
    return archive_figures(asyncio.run(read_metrics(address, PREFIX)))
