"""Which launcher a sink or source gets."""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from iggy_operator.reasons import Reason
from iggy_operator.resources import Connector

Launcher: TypeAlias = Literal["Kubeflow", "Apache", "Native"]

RESOURCE_TYPES: Final[dict[Launcher, str]] = {
    "Kubeflow": "sparkapplications.sparkoperator.k8s.io",
    "Apache": "sparkapplications.spark.apache.org",
}
"""What must be installed. Always the full name: both are called SparkApplication."""
_ORDER: Final[tuple[Launcher, ...]] = ("Kubeflow", "Apache", "Native")


@dataclass(frozen=True, slots=True)
class Choice:
    """The launcher, or why there is none."""

    launcher: Launcher | None
    reason: Reason | None = None
    message: str = ""


def choose(connector: Connector, installed: Set[str], *, current: Launcher | None) -> Choice:
    """`installed`: resource types of the cluster; `current`: what its application uses.

    Auto keeps what it has as long as that exists: installing an operator restarts no job.
    """
    spark = connector.spec["spark"]
    wanted = spark["launcher"]
    usable = [name for name in _ORDER if RESOURCE_TYPES.get(name, "") in {"", *installed}]
    if wanted == "Auto":
        if spark["executor"]["instances"] == 0:
            return Choice("Native")
        return Choice(current if current in usable else usable[0])
    if wanted in usable:
        return Choice(wanted)
    message = (
        f"spark.launcher is {wanted}, and {RESOURCE_TYPES[wanted]} is not installed: install that "
        "Spark operator, or use Auto or Native"
    )
    return Choice(None, Reason.SPARK_OPERATOR_MISSING, message)
