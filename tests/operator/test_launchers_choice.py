from typing import Any, get_args

import pytest

from iggy_operator.launchers.choice import RESOURCE_TYPES, Launcher, choose
from iggy_operator.reasons import Reason
from launcher_cases import sink_of

KUBEFLOW, APACHE = RESOURCE_TYPES["Kubeflow"], RESOURCE_TYPES["Apache"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)


def wish(launcher: str = "Auto", **executor: Any) -> Any:
    return sink_of(spark={"launcher": launcher, "executor": executor})


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (set(), "Native"),
        ({APACHE}, "Apache"),
        ({KUBEFLOW}, "Kubeflow"),
        ({APACHE, KUBEFLOW, "pods"}, "Kubeflow"),
    ],
)
def test_auto_takes_the_first_that_is_there(installed: set[str], chosen: str) -> None:
    assert choose(wish(), installed, current=None).launcher == chosen


@pytest.mark.parametrize("current", LAUNCHERS)
def test_auto_keeps_what_runs(current: Launcher) -> None:
    assert choose(wish(), {KUBEFLOW, APACHE}, current=current).launcher == current


def test_auto_goes_on_without_an_operator_that_was_removed() -> None:
    assert choose(wish(), {APACHE}, current="Kubeflow").launcher == "Apache"


def test_a_sink_without_executors_is_native() -> None:
    assert choose(wish(instances=0), {KUBEFLOW}, current="Kubeflow").launcher == "Native"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_is_named_is_taken(launcher: Launcher) -> None:
    assert choose(wish(launcher), {KUBEFLOW, APACHE}, current="Native").launcher == launcher


@pytest.mark.parametrize("launcher", ["Kubeflow", "Apache"])
def test_what_is_named_and_missing_is_said(launcher: Launcher) -> None:
    choice = choose(wish(launcher), set(), current=launcher)

    assert choice.launcher is None
    assert choice.reason is Reason.SPARK_OPERATOR_MISSING
    assert RESOURCE_TYPES[launcher] in choice.message
