"""What a scenario asks about topics: the broker itself, and what their objects say."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping

from e2e_broker import STREAM, TOPIC
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Login
from e2e_watch import condition
from iggy_client import Client
from iggy_operator.observed import options_of
from iggy_operator.resources import OptionValue

METRICS_PORT = 8080
_PASSES = re.compile(r"^iggy_operator_reconcile_total\{([^}]*)\} (\S+)$", re.MULTILINE)


def connected(login: Login) -> Client:
    return Client.connect(login.address, login.username, login.password)


def options(login: Login, topic: str = TOPIC) -> Mapping[str, OptionValue]:
    """What the broker has for a topic; empty if there is none."""
    with connected(login) as client:
        found = client.get_topic(STREAM, topic)
        return {} if found is None else options_of(found.topic)


def topics(login: Login) -> set[str]:
    """The topics of the stream; none if it is not there."""
    with connected(login) as client:
        if client.get_stream(STREAM) is None:
            return set()
        return {header.name for header in client.get_topics(STREAM)}


def users(login: Login) -> set[str]:
    with connected(login) as client:
        return {user.name for user in client.get_users()}


def says(kubectl: Kubectl, what: str, kind: str = "Ready") -> tuple[str, str]:
    """Status and reason of a condition, of the present spec; empty words if it has none."""
    value = kubectl.get(*what.split("/"))
    found = condition(value, kind)
    if found.get("observedGeneration") != value["metadata"]["generation"]:
        return "", ""
    return found["status"], found["reason"]


def status(kubectl: Kubectl, what: str) -> Document:
    found: Document = kubectl.get(*what.split("/")).get("status", {})
    return found


def passes(operator: Operator, kind: str) -> float:
    """How many passes over objects of a kind the operator's pods have run."""
    return sum(
        float(value)
        for pod in operator.pods()
        for labels, value in _PASSES.findall(_metrics(operator, pod))
        if f'kind="{kind}"' in labels
    )


def _metrics(operator: Operator, pod: Document) -> str:
    name = pod["metadata"]["name"]
    with (
        operator.system.forwarded(f"pod/{name}", METRICS_PORT) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        return str(answer.read().decode())
