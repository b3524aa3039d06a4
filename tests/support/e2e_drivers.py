"""The driver of a sink or source in a scenario: which pod it is, and whether another one runs."""

from __future__ import annotations

from e2e_kubectl import Document, Kubectl


def driver(kubectl: Kubectl, selector: str) -> Document:
    """The only pod with these labels."""
    (pod,) = kubectl.items("pods", "--selector", selector)
    return pod


def runs_anew(kubectl: Kubectl, selector: str, old: Document) -> bool:
    """Another process than that of `old`, in its pod or in a new one."""
    pods = kubectl.items("pods", "--selector", selector)
    statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", [])]
    numbers = {status.get("containerID") for status in statuses if "running" in status["state"]}
    return bool(numbers) and old["status"]["containerStatuses"][0]["containerID"] not in numbers
