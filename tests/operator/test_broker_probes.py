"""What pods and the operator ask a broker by HTTP, asked of a real one."""

import asyncio
import urllib.request
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from desired_cases import broker_of, children_of
from iggy_operator.desired import transports
from iggy_operator.figures import PREFIX, ArchiveFigures, FiguresError, archive_figures
from iggy_operator.program.broker_metrics import read_metrics


def test_probes_are_answered_by_a_real_broker(tmp_path: Path) -> None:
    container = children_of(broker_of())["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    paths = {container[f"{kind}Probe"]["httpGet"]["path"]
             for kind in ("startup", "liveness", "readiness")}  # fmt: skip
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["monitoring"] == transports.MONITORING_PORT

    with running_broker(tmp_path, shards=1, monitoring=True) as broker:
        answers = {path: status(broker, path) for path in paths}
        lines = asyncio.run(read_metrics(f"127.0.0.1:{broker.monitoring_port}", PREFIX))
        with pytest.raises(FiguresError, match="/metrics"):
            asyncio.run(read_metrics("127.0.0.1:1", PREFIX))

    assert archive_figures(lines) == ArchiveFigures(False, 0, 0, 0, 0.0)
    assert answers == {"/ping": 200, "/ready": 200}


def status(broker: BrokerProcess, path: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.monitoring_port}{path}") as answer:
        return int(answer.status)
