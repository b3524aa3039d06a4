"""The alerts of the operator's chart, and scenes for Prometheus' promtool to try them in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_values import CHARTS
from iggy_spark.figures import Figures
from iggy_spark.job_metrics import JobMetrics
from iggy_spark.outlook import Outlook, Standing
from iggy_spark.source_metrics import SourceMetrics

RULES = sorted((CHARTS / "iggy-operator" / "files" / "alerts").glob("*.yaml"))
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="install Prometheus for its promtool"
)


def rules_of(path: Path) -> list[dict[str, Any]]:
    """All alerts of a file."""
    groups = yaml.safe_load(path.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def sink_metrics() -> dict[str, tuple[str, ...]]:
    """What a sink's driver serves, as Prometheus calls it, with the labels of each."""
    metrics = JobMetrics("shop/orders.lake", per_partition=True)
    metrics.seen(Outlook(0, 0.0, None, {0: Standing(0, 0)}))
    return _served(metrics)


def source_metrics() -> dict[str, tuple[str, ...]]:
    """The same of a source's driver."""
    return _served(SourceMetrics("shop/orders.made"))


def _served(figures: Figures) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for family in figures.registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, tuple(sample.labels))
    return {name: labels for name, labels in found.items() if not name.endswith("_created")}


def scene(alert: str, series: Mapping[str, str], raised: str | None) -> dict[str, Any]:
    """A test for promtool: `series` minute by minute, and after 20 of them one alert that fires
    with the labels `raised`, such as `{pod="p"}`, besides its severity; None: it does not fire.
    """
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    expected = {
        "expr": f"count without (alertname, alertstate, severity) ({firing})",
        "eval_time": "20m",
        "exp_samples": [] if raised is None else [{"labels": raised, "value": 1}],
    }
    return {
        "rule_files": [str(path) for path in RULES],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [expected],
            }
        ],
    }
