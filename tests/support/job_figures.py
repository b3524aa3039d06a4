"""Figures that a running job serves, as Prometheus fetches them."""

from __future__ import annotations

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def figure(port: int, name: str, **labels: str) -> float | None:
    """One figure with exactly these labels; None while the job does not serve it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except (OSError, urllib.error.URLError):
        return None
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == name and one.labels == labels:
                return float(one.value)
    return None
