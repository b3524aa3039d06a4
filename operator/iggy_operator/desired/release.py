"""What the operator's release and installation bring along."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Release:
    """What is used where a resource says nothing, and where the operator runs."""

    broker_image: str
    spark_image: str
    spark_version: str
    """Of `spark_image`, such as 4.3.0."""
    operator_namespace: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the namespaces of the pods."""
    restart_on_upgrade: bool = False
    """Whether brokers take over at once what a new release renders."""
    default_broker: Mapping[str, Any] = field(default_factory=dict)
    """Spec of the IggyBroker that is made where a reference names none."""
