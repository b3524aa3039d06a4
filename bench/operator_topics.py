"""How long one `kubectl apply` of many topics takes to be Ready, and how large the operator gets.

    python bench/operator_topics.py [--topics 1000] [--kubeconfig FILE]

Needs an API server with our definitions. Starts a broker and an operator on this machine, in a
namespace of its own, which goes at the end. Prints figures and judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from e2e_kubectl import Kubectl, as_yaml  # noqa: E402
from operator_scene import OperatorScene, scene  # noqa: E402
from process_memory import MIB, processor_s, proportional_bytes, sockets  # noqa: E402

WITHIN_S = 600.0
PAGE = 500
REST_S = 60.0


async def ready_topics(found: OperatorScene) -> int:
    """How many say that they are Ready."""
    path = f"/apis/iggykube.dev/v1alpha1/namespaces/{found.namespace}/iggytopics"
    place, count = "", 0
    while True:
        query = {"limit": str(PAGE)} | ({"continue": place} if place else {})
        page = await found.people.client.get(path, query)
        for item in page["items"]:
            conditions = item.get("status", {}).get("conditions", ())
            count += any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
        place = page["metadata"].get("continue", "")
        if not place:
            return count


async def measure(found: OperatorScene, topics: int) -> None:
    """Print what it takes."""
    await found.give_broker()
    operator = await found.ready_operator()
    spec = {"streamRef": {"name": "shop"}}
    names = [f"topic-{number}" for number in range(topics)]
    documents = [found.document("IggyTopic", name, spec) for name in names]
    begun_s = time.monotonic()
    words = ("apply", "--server-side", "--filename=-")
    apply = asyncio.create_task(
        asyncio.to_thread(found.kubectl, *words, stdin=as_yaml(documents), within_s=WITHIN_S)
    )
    peak = 0
    applied_s = 0.0
    while await ready_topics(found) < topics:
        peak = max(peak, proportional_bytes([operator.pid]))
        if apply.done() and not applied_s:
            applied_s = time.monotonic() - begun_s
        assert time.monotonic() - begun_s < WITHIN_S, "that takes too long"
        await asyncio.sleep(0.5)
    ready_s = time.monotonic() - begun_s
    await apply
    links = sum(f":{found.broker.tcp_port:04X} " in line for line in established(operator.pid))
    print(f"{topics} topics: kubectl took {applied_s:.1f} s, all Ready after {ready_s:.1f} s")
    print(f"operator: {processor_s(operator.pid):.1f} s of processor time, {links} broker links")
    peak = max(peak, proportional_bytes([operator.pid]))
    print(f"operator: {peak / MIB:.0f} MiB at most, {sockets(operator.pid)} sockets at the end")
    used_s = processor_s(operator.pid)
    await asyncio.sleep(REST_S)
    idle = (processor_s(operator.pid) - used_s) / REST_S
    now = proportional_bytes([operator.pid])
    print(f"operator at rest: {idle:.1%} of a core, {now / MIB:.0f} MiB")


def established(pid: int) -> list[str]:
    """Lines of the kernel's table that belong to nobody but this machine's loopback."""
    rows = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    held = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            held.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").rstrip("]"))
        except FileNotFoundError:
            continue
    return [row for row in rows if row.split()[9] in held and row.split()[3] == "01"]


async def main() -> None:
    """As the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--kubeconfig", type=Path, default=os.environ.get("KUBECONFIG"))
    options = parser.parse_args()
    if options.kubeconfig is None:
        parser.error("set KUBECONFIG, or --kubeconfig")
    kubectl = Kubectl("kubectl", Path(options.kubeconfig), f"bench-{os.getpid()}")
    kubectl("create", "namespace", kubectl.namespace)
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with scene(Path(folder), kubectl) as found:
                await measure(found, options.topics)
    finally:
        kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


if __name__ == "__main__":
    asyncio.run(main())
