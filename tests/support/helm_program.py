"""The Helm program, and charts rendered by it. Without one, tests are skipped and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_values import CHARTS

VERSION = "3.22.0"
# Of the Prometheus operator.
MONITORING_KINDS = (
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
)
Manifest = dict[str, Any]


def find_helm() -> Path | None:
    """The one that `make e2e` builds, else one of the machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = cache / "iggykube" / "e2e" / "bin" / f"helm-{VERSION}" / "helm"
    if built.is_file():
        return built
    found = shutil.which("helm")
    return Path(found) if found else None


HELM = find_helm()
needs_helm = pytest.mark.skipif(
    HELM is None, reason=f"Helm is not here: install Helm 3 (such as {VERSION}), or run make e2e"
)


class HelmRefused(Exception):
    """Helm ended with an error; the text is what it said."""


def helm(*arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
    """What Helm prints. Raises HelmRefused."""
    assert HELM is not None, "a test that runs Helm is marked with needs_helm"
    command = [str(HELM), *map(str, arguments)]
    given = None
    if values is not None:
        command += ["--values", "-"]
        given = yaml.safe_dump(values)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmRefused(done.stderr + done.stdout)
    return done.stdout


def template(
    chart: str,
    values: Mapping[str, Any] | None = None,
    *,
    files: Sequence[Path] = (),
    arguments: Iterable[str] = (),
) -> str:
    """A chart's text, rendered as release `iggy-operator` or `shop`, in namespace `here`."""
    release = "shop" if chart == "iggy-topology" else chart
    given = [word for path in files for word in ("--values", str(path))]
    return helm(
        "template", release, CHARTS / chart, "--namespace", "here", *given, *arguments,
        values=values,
    )  # fmt: skip


def rendered(
    chart: str,
    values: Mapping[str, Any] | None = None,
    *,
    files: Sequence[Path] = (),
    arguments: Iterable[str] = (),
) -> list[Manifest]:
    """The same as objects."""
    return parsed(template(chart, values, files=files, arguments=arguments))


def parsed(text: str) -> list[Manifest]:
    """The objects of a rendered text."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [value for value in yaml.load_all(text, Loader=loader) if value is not None]


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """Those of one kind."""
    return [value for value in manifests if value["kind"] == kind]


def without_crds(values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Values of the operator's chart that leave the definitions out: 180 KB less to read."""
    return {**(values or {}), "crds": {"install": False}}


def with_monitoring() -> list[str]:
    """Arguments for a cluster that has the Prometheus operator."""
    return [word for kind in MONITORING_KINDS for word in ("--api-versions", kind)]
