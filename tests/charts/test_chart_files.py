"""The charts' own files, without Helm: nothing is out of date, and every name in them exists."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import chart_files
from alert_rules import RULES, rules_of, sink_metrics, source_metrics
from chart_values import CHARTS, values_of
from iggy_operator.program import main, watches
from iggy_operator.program.metrics import FAMILIES
from marked_tables import rows
from operator_rights import Rights, granted

ROOT = CHARTS.parent
FILES = CHARTS / "iggy-operator" / "files"
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
CHARTS_OF_OURS = ("iggy-operator", "iggy-topology")
METRIC = re.compile(r"\biggy_[a-z0-9_]+")


@pytest.mark.parametrize(
    "path", chart_files.texts(), ids=lambda path: str(path.relative_to(CHARTS))
)
def test_what_is_made_from_something_else_is_up_to_date(path: Path) -> None:
    text = chart_files.texts()[path]

    assert path.read_text() == text, "run: make charts"


def test_no_definition_is_left_over() -> None:
    copied = {path.name for path in (FILES / "crds").iterdir()}

    assert copied == {path.name for path in (ROOT / "crds").glob("*.yaml")}


def test_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (spark,) = [item for item in project["optional-dependencies"]["spark"]
                if item.startswith("pyspark==")]  # fmt: skip

    for name in CHARTS_OF_OURS:
        chart = yaml.safe_load((CHARTS / name / "Chart.yaml").read_text())
        assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])
    operator = yaml.safe_load((CHARTS / "iggy-operator" / "Chart.yaml").read_text())
    assert operator["annotations"]["iggykube.dev/spark-version"] == spark.removeprefix("pyspark==")


@pytest.mark.parametrize("chart", CHARTS_OF_OURS)
def test_every_value_is_described(chart: str) -> None:
    bare = [value.name for value in values_of(chart) if not value.comment.endswith((".", ")"))]

    assert bare == [], "write a sentence above it"


@pytest.mark.parametrize("chart", CHARTS_OF_OURS)
def test_the_defaults_fit_the_schema_and_the_schema_knows_all_values(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())

    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(defaults, schema)
    assert set(schema["properties"]) - {"global"} == set(defaults)


@pytest.mark.parametrize("chart", CHARTS_OF_OURS)
def test_no_mapping_of_the_schema_takes_any_field(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())

    open_ones = [
        place
        for place, node in nodes(schema, "")
        if "properties" in node and node.get("additionalProperties") is not False
        if not place.endswith(tuple(f"/properties/{part}" for part in ("global",)))
        and "propertyNames" not in node
    ]

    assert open_ones == []


def nodes(node: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and not place.endswith("/properties"):
            yield place, node
        for name, item in node.items():
            yield from nodes(item, f"{place}/{name}")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_are_whole(path: Path) -> None:
    board = json.loads(path.read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]

    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in panels:
        assert panel["title"] and panel["description"], panel["id"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(places) == len(set(places))


def expressions() -> Iterator[tuple[str, str]]:
    """Every query of dashboards and alerts, with its place."""
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{path.name}: {variable['name']}", variable["query"]["query"]
    for path in RULES:
        for rule in rules_of(path):
            yield f"{path.name}: {rule['alert']}", rule["expr"]


def test_dashboards_and_alerts_ask_for_metrics_that_exist() -> None:
    kinds = {row[0]: row[1] for row in rows("metrics")}
    kinds |= {family.name: family.kind for family in FAMILIES}
    known = {f"{name}_bucket" if kind == "histogram" else name for name, kind in kinds.items()}

    known |= set(sink_metrics()) | set(source_metrics())

    asked = {(place, name) for place, text in expressions() for name in METRIC.findall(text)}

    assert {(place, name) for place, name in asked if name not in known} == set()
    assert len(asked) > 60, "there are many"


@pytest.mark.parametrize(
    ("page", "served", "kind"),
    [("spark.md", sink_metrics(), "sink"), ("sources.md", source_metrics(), "source")],
    ids=["sinks", "sources"],
)
def test_the_figures_of_jobs_are_those_of_the_documents(
    page: str, served: dict[str, tuple[str, ...]], kind: str
) -> None:
    text = (ROOT / "docs" / page).read_text()
    parts = ("_bucket", "_count", "_sum")  # of a histogram
    names = {name for name in served if not name.endswith(parts)}
    names |= {name.removesuffix("_sum") for name in served if name.endswith("_sum")}

    listed = set(re.findall(rf"`(iggy_{kind}_[a-z_]+)[{{`]", text))

    assert listed == names
    alerts = set(re.findall(rf"`(Iggy{kind.capitalize()}\w+)`", text))
    (rules,) = (path for path in RULES if path.stem == f"{kind}s")
    assert alerts == {rule["alert"] for rule in rules_of(rules)}


def test_rights_are_listed_in_the_documents() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    table = page.partition("<!-- rights: begin -->")[2].partition("<!-- rights: end")[0]
    listed: Rights = {}
    for line in table.strip().splitlines()[2:]:
        group, resources, verbs, _ = (cell.strip() for cell in line.strip("|").split("|"))
        for resource in resources.split(", "):
            key = ("" if group == "core" else group.strip("`"), resource.strip("`"))
            listed.setdefault(key, set()).update(verbs.split(", "))

    assert listed == granted()


def test_a_pod_of_the_operator_lives_as_long_as_its_stop_may_take() -> None:
    may_take_s = main.GRACE_S + watches.STOP_S + main.RELEASE_S + main.LAST_LOOK_S

    given = yaml.safe_load((CHARTS / "iggy-operator" / "values.yaml").read_text())
    assert may_take_s < given["terminationGracePeriodSeconds"]
