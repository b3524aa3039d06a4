"""What is rendered depends on the resource alone: no clock, no disk, no network, no chance."""

import ast
import copy
from pathlib import Path
from typing import get_args

import pytest

import iggy_operator
from desired_cases import broker_of, children_of
from iggy_operator.launchers.children import connector_children, problems
from iggy_operator.launchers.choice import Launcher
from launcher_cases import job_of, sink_of

PACKAGE = Path(iggy_operator.__file__).parent
MODULES = sorted([*(PACKAGE / "desired").glob("*.py"), *(PACKAGE / "launchers").glob("*.py")])
OF_PYTHON = {
    "base64", "collections", "dataclasses", "enum", "hashlib", "ipaddress", "json", "re", "typing",
}  # fmt: skip
OF_OURS = {"decide", "desired", "launchers", "names", "reasons", "resources", "schema", "units"}


def imported(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "iggy_operator":
            found |= {f"iggy_operator.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_nothing_is_imported_that_could_have_an_effect(module: Path) -> None:
    names = {name.removeprefix("iggy_operator.").partition(".")[0] for name in imported(module)}

    assert names <= OF_PYTHON | OF_OURS | {"API_GROUP"}


@pytest.mark.parametrize("launcher", get_args(Launcher))
def test_rendering_a_sink_leaves_it_as_it_was(launcher: Launcher) -> None:
    job = job_of(sink_of())
    before = copy.deepcopy(job.connector.spec)

    assert problems(job, launcher) == ()
    assert connector_children(job, launcher) == connector_children(job, launcher)

    assert job.connector.spec == before


def test_rendering_a_broker_leaves_it_as_it_was() -> None:
    broker = broker_of(podTemplate={"labels": {"team": "data"}, "annotations": {"note": "x"}})
    before = copy.deepcopy(broker.spec)

    children_of(broker)

    assert broker.spec == before
