"""Metrics of a real broker, as Prometheus' own strict parser reads them."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from broker_process import BrokerProcess

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
WAIT_S = 20.0

Labels = frozenset[tuple[str, str]]


class Scrape:
    """One scrape; `seconds` is how long it took."""

    def __init__(self, broker: BrokerProcess) -> None:
        began = time.perf_counter()
        self.text, self.kind = fetch(broker, accept=OPENMETRICS)
        self.seconds = time.perf_counter() - began
        self.families: dict[str, Metric] = {}
        for family in text_string_to_metric_families(self.text):
            assert family.name not in self.families, f"{family.name} comes twice"
            self.families[family.name] = family

    def series(self, name: str) -> dict[Labels, float]:
        """All samples of that name, by their labels."""
        family = next(
            name.removesuffix(suffix)
            for suffix in ("", "_total", "_bucket", "_sum", "_count")
            if name.removesuffix(suffix) in self.families
        )
        return {
            frozenset(sample.labels.items()): sample.value
            for sample in self.families[family].samples
            if sample.name == name
        }

    def value(self, name: str, **labels: str | int) -> float | None:
        """One sample; None if there is none with exactly these labels."""
        wanted = frozenset((key, str(value)) for key, value in labels.items())
        return self.series(name).get(wanted)

    def sum(self, name: str, **labels: str | int) -> float:
        """All samples that have these labels, added up; 0 if there are none."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        return sum(value for found, value in self.series(name).items() if wanted <= found)

    def about(self, stream: str) -> list[str]:
        """The lines that name a stream."""
        return [line for line in self.text.splitlines() if f'stream="{stream}"' in line]


def fetch(broker: BrokerProcess, *, accept: str = "*/*") -> tuple[str, str]:
    """The text of /metrics and its content type."""
    url = f"http://127.0.0.1:{broker.monitoring_port}/metrics"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def scrape_until(broker: BrokerProcess, holds: Callable[[Scrape], bool], what: str) -> Scrape:
    """Scrape until something holds, for what happens a moment after its cause."""
    deadline = time.monotonic() + WAIT_S
    while not holds(found := Scrape(broker)):
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)
    return found
