"""docs/first-topic.md from its first line to its last, in pods."""

import base64
import os
import re
import subprocess
import sys

import pytest

from e2e_kubectl import Kubectl
from e2e_operator import Operator
from page_samples import ROOT, Sample, blocks

PAGE = "docs/first-topic.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
START_S = 300.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def steps() -> list[Sample]:
    """The page's resources, in its order."""
    return [block for block in blocks() if block.place.startswith(f"{PAGE}:")]


def secret(kubectl: Kubectl, name: str, key: str) -> str:
    return base64.b64decode(kubectl.get("secret", name)["data"][key]).decode()


def run_program(kubectl: Kubectl) -> str:
    """What the page's program prints, through a port-forward as the page says."""
    (program,) = PROGRAM.findall((ROOT / PAGE).read_text())
    login = {
        "IGGY_USERNAME": secret(kubectl, "clerk-iggy", "username"),
        "IGGY_PASSWORD": secret(kubectl, "clerk-iggy", "password"),
    }
    with kubectl.forwarded("service/iggy", 8090) as port:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:8090", f"127.0.0.1:{port}")],
            env=os.environ | login,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_works(operator: Operator, steps: list[Sample]) -> None:
    kubectl = operator.work
    shop, with_sink = steps

    kubectl.apply(shop.text)
    for name in ("igb/iggy", "igs/shop", "igt/orders", "igu/clerk"):
        kubectl.wait(name, "condition=Ready", START_S)
    for partitions in (0, 2):
        text = shop.text.replace("partitions: 3", f"partitions: {partitions}")
        assert "spec.partitions" in kubectl.apply_refusal(text)

    assert run_program(kubectl) == "sent 300 orders, 300 are there\n"
    kubectl.wait("igt/orders", "jsonpath={.status.messages}=300")

    kubectl.apply(with_sink.text)
    kubectl.wait("igk/orders.lake", "condition=Ready", START_S)
    kubectl.wait("igk/orders.lake", "jsonpath={.status.progress.committed}=300")
    kubectl.wait("igk/orders.lake", "jsonpath={.status.progress.lagMessages}=0")
    driver = kubectl.get("igk", "orders.lake")["status"]["application"]["driverPod"]
    assert ".parquet" in kubectl.execute(driver, "find", "/lake/orders", "-name", "*.parquet")
