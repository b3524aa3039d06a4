"""A thousand topics by one `kubectl apply`: how long until all are Ready, and how large that is.

MANY_TOPICS=10000 in the environment is another number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from e2e_broker import STREAM, broker, make, ours, root, stream
from e2e_kubectl import Kubectl, as_yaml
from e2e_operator import Operator
from e2e_pods import memory_mib
from e2e_topics import connected, topics
from waiting import wait_until

pytestmark = pytest.mark.timeout(3_600)

OPERATOR_VALUES = {"replicas": 1}
COUNT = int(os.environ.get("MANY_TOPICS", "1000"))
READY_S = 60.0
"""This is what was asked for, of a quiet machine."""
SLOWER = 8.0
"""One that does other things at the same time."""
MEMORY_MIB_MAX = 250.0
READY = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}"

Note = Callable[[str], None]


def test_a_thousand_topics_are_ready_over_one_connection(
    operator: Operator, measured: Note
) -> None:
    work = operator.work
    make(work, broker(), stream())
    names = [f"topic-{number}" for number in range(COUNT)]
    documents = [ours("IggyTopic", name, streamRef={"name": STREAM}) for name in names]

    within_s = READY_S * SLOWER * max(1.0, COUNT / 1_000)
    began = time.monotonic()
    work("apply", "--server-side", "--filename=-", stdin=as_yaml(documents), within_s=within_s)
    applied_s = time.monotonic() - began
    wait_until(lambda: ready(work) == COUNT, "all are Ready", within_s)
    ready_s = time.monotonic() - began

    assert topics(root(work)) == set(names)
    (pod,) = operator.pods()
    size_mib = memory_mib(operator.system, pod)
    links = connections(work, pod["status"]["podIP"])
    load = os.getloadavg()[0]
    measured(
        f"{COUNT:,} topics: kubectl {applied_s:.1f} s, all Ready {ready_s:.1f} s after it "
        f"began, operator {size_mib:.0f} MiB, {links} connection(s); load average {load:.1f}"
    )
    assert links == 1
    assert size_mib < MEMORY_MIB_MAX


def ready(kubectl: Kubectl) -> int:
    return kubectl("get", "igt", f"--output={READY}").split().count("True")


def connections(kubectl: Kubectl, address: str) -> int:
    """How many the broker has from there."""
    with connected(root(kubectl)) as client:
        return sum(one.address.rpartition(":")[0] == address for one in client.get_clients())
