"""Calls that are tried again quickly, and not for long."""

from iggy_spark.retry import Policy, Retry


def quick(timeout_s: float = 20.0) -> Retry:
    return Retry(Policy(timeout_s, 0.01, 0.05))
