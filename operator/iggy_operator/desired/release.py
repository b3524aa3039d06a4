"""What the operator's release and installation bring along."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """Images that are used where a resource names none, and where the operator runs."""

    broker_image: str
    spark_image: str
    spark_version: str
    """Of `spark_image`, such as 4.3.0."""
    operator_namespace: str
