"""The charts' own files, without Helm: nothing is out of date, and every name in them exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import chart_files
from chart_values import CHARTS, values_of
from iggy_operator.program import main, watches
from iggy_operator.program.metrics import FAMILIES
from operator_rights import Rights, granted

ROOT = CHARTS.parent
FILES = CHARTS / "iggy-operator" / "files"
PAGE = (ROOT / "docs" / "operations.md").read_text()
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
RULES = sorted((FILES / "alerts").glob("*.yaml"))
CHARTS_OF_OURS = ("iggy-operator", "iggy-topology")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="install Prometheus for its promtool"
)
METRIC = re.compile(r"\biggy_[a-z0-9_]+")


def rules_of(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "alerts" / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def rows(kind: str) -> Iterator[list[str]]:
    """The rows of a marked table of docs/operations.md."""
    table = PAGE.partition(f"<!-- {kind}: begin -->")[2].partition(f"<!-- {kind}: end")[0]
    for line in table.strip().splitlines()[2:]:
        yield [cell.strip().strip("`") for cell in line.strip().strip("|").split(" | ")]


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


def test_the_alerts_are_those_of_the_documents() -> None:
    documented = [
        ("Iggy" + "".join(word.capitalize() for word in name.split()), when, waits.replace(" ", ""))
        for name, when, waits, _ in rows("alerts")
    ]

    found = [
        (rule["alert"], one_broker(rule["expr"]), rule.get("for", "0m"))
        for rule in rules_of("broker.yaml")
    ]

    assert found == documented


def one_broker(expression: str) -> str:
    """A rule for many brokers, as the documents write it for one."""
    return expression.replace(" by (namespace, pod) ", "").replace("namespace, pod, le", "le")


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_alert_says_how_bad_it_is_and_what_to_do(path: Path) -> None:
    for rule in rules_of(path.name):
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        for text in ("summary", "description"):
            assert rule["annotations"][text].endswith("."), (rule["alert"], text)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
@needs_promtool
def test_prometheus_understands_the_alerts(path: Path) -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


# What an alert sees, minute by minute, and whether it is raised in the end.
SCENES = [
    ("IggyOperatorWithoutLeader", {'iggy_operator_leader{namespace="a",pod="p"}': "0x20"}, True),
    ("IggyOperatorWithoutLeader", {"up": "0x20"}, True),
    (
        "IggyOperatorWithoutLeader",
        {
            'iggy_operator_leader{namespace="a",pod="p"}': "0x20",
            'iggy_operator_leader{namespace="a",pod="q"}': "1x20",
        },
        False,
    ),
    (
        "IggyOperatorDeaf",
        {'iggy_operator_watch_last_event_seconds{namespace="a",pod="p",kind="Pod"}': "0+60x20"},
        True,
    ),
    (
        "IggyOperatorDeaf",
        {'iggy_operator_watch_last_event_seconds{namespace="a",pod="p",kind="Pod"}': "60x20"},
        False,
    ),
    ("IggyTopicRecreated", {"iggy_operator_topic_recreated_total": "0x10 1x10"}, True),
    ("IggyTopicRecreated", {"iggy_operator_topic_recreated_total": "1x20"}, False),
    (
        "IggyBrokerNotReady",
        {'iggy_operator_objects{namespace="a",kind="IggyBroker",ready="Unknown"}': "1x20"},
        True,
    ),
    (
        "IggyBrokerNotReady",
        {
            'iggy_operator_objects{namespace="a",kind="IggyBroker",ready="True"}': "1x20",
            'iggy_operator_objects{namespace="a",kind="IggyBroker",ready="False"}': "0x20",
        },
        False,
    ),
    ("IggyNotReady", {'iggy_ready{namespace="a",pod="p",shard="1"}': "0x20"}, True),
    (
        "IggyDiskNearlyFull",
        {'iggy_disk_free_bytes{pod="p"}': "14x20", 'iggy_disk_usage_bytes{pod="p"}': "86x20"},
        True,
    ),
]


@needs_promtool
@pytest.mark.parametrize(("alert", "series", "is_raised"), SCENES)
def test_alerts_are_raised_when_they_should(
    alert: str, series: dict[str, str], is_raised: bool, tmp_path: Path
) -> None:
    scene = {
        "rule_files": [str(path) for path in RULES],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                        "eval_time": "20m",
                        "exp_samples": [{"labels": "{}", "value": 1}] if is_raised else [],
                    }
                ],
            }
        ],
    }
    (tmp_path / "scene.yaml").write_text(yaml.safe_dump(scene))

    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "scene.yaml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


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
        for rule in rules_of(path.name):
            yield f"{path.name}: {rule['alert']}", rule["expr"]


def test_dashboards_and_alerts_ask_for_metrics_that_exist() -> None:
    kinds = {row[0]: row[1] for row in rows("metrics")}
    kinds |= {family.name: family.kind for family in FAMILIES}
    known = {f"{name}_bucket" if kind == "histogram" else name for name, kind in kinds.items()}

    asked = {(place, name) for place, text in expressions() for name in METRIC.findall(text)}

    assert {(place, name) for place, name in asked if name not in known} == set()
    assert len(asked) > 60, "there are many"


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
