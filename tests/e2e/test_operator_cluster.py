"""Our access to a real API server keeps what the fake cluster of all other tests promises."""

import asyncio

import pytest

from cluster_contract import SCENARIOS, Scenario
from e2e_kubectl import Kubectl
from real_people import real


@pytest.mark.parametrize("check_promise", SCENARIOS, ids=lambda promise: promise.__name__)
def test_a_real_api_server_keeps_the_contract(
    check_promise: Scenario, kubectl: Kubectl, our_kinds: None
) -> None:
    async def main() -> None:
        async with real(kubectl.kubeconfig, kubectl.namespace) as (cluster, people):
            await check_promise(cluster, people)

    asyncio.run(main())
