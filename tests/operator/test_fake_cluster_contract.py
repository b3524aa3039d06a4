"""The cluster in memory keeps what a `Cluster` promises. A real API server: tests/e2e."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cluster_contract import SCENARIOS, Scenario
from fake_cluster import FakeCluster
from iggy_operator.cluster import Object, Ref
from operator_world import HandClock


class FakePeople:
    """kubectl on a fake cluster."""

    namespace = "shop"

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    async def put(self, value: Mapping[str, Any]) -> Object:
        return self._cluster.put(value, namespace=self.namespace)

    async def remove(self, ref: Ref) -> None:
        self._cluster.remove(ref)


@pytest.mark.parametrize("check_promise", SCENARIOS, ids=lambda promise: promise.__name__)
def test_the_fake_cluster_keeps_the_contract(check_promise: Scenario) -> None:
    cluster = FakeCluster(HandClock())
    cluster.missing_kinds.add("SparkApplication.spark.apache.org")

    asyncio.run(check_promise(cluster, FakePeople(cluster)))
