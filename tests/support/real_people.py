"""A real API server for tests: our `Cluster` on it, and people with kubectl beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from iggy_operator.clock import SystemClock
from iggy_operator.cluster import ConflictError, NotFoundError, Object, Ref
from iggy_operator.objects import ref_of
from iggy_operator.program.api_access import Access
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_cluster import ApiCluster
from iggy_operator.program.api_kinds import API_KINDS, path_of

WITHIN_S = 60.0
_BY = {"fieldManager": "kubectl"}
_NO_ACCOUNT = Path("/nonexistent")


class RealPeople:
    """kubectl on a real API server, in one namespace."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def put(self, value: Mapping[str, Any]) -> Object:
        """`kubectl replace`, or `create` where there is none."""
        ref = ref_of({**value, "metadata": {"namespace": self.namespace, **value["metadata"]}})
        while True:
            try:
                old = await self.client.get(path_of(ref))
            except NotFoundError:
                path = API_KINDS[ref.kind].path(namespace=ref.namespace)
                made: Object = await self.client.request("POST", path, query=_BY, body=value)
                return made
            own = ("labels", "annotations")
            kept = {name: item for name, item in old["metadata"].items() if name not in own}
            try:
                changed: Object = await self.client.request(
                    "PUT",
                    path_of(ref),
                    query=_BY,
                    body={**old, **value, "metadata": {**kept, **value["metadata"]}},
                )
            except ConflictError:
                continue  # somebody else was faster
            return changed

    async def remove(self, ref: Ref) -> None:
        """`kubectl delete`."""
        await self.client.request("DELETE", path_of(ref))

    async def get(self, ref: Ref) -> Object:
        found: Object = await self.client.get(path_of(ref))
        return found

    async def is_gone(self, ref: Ref) -> bool:
        try:
            await self.get(ref)
        except NotFoundError:
            return True
        return False

    async def says(self, ref: Ref, kind: str = "Ready") -> tuple[str, str]:
        """Status and reason of a condition."""
        conditions = (await self.get(ref)).get("status", {}).get("conditions", ())
        found = [(item["status"], item["reason"]) for item in conditions if item["type"] == kind]
        return found[0] if found else ("", "")


@asynccontextmanager
async def real(kubeconfig: Path, namespace: str) -> AsyncIterator[tuple[ApiCluster, RealPeople]]:
    """Both, until the end."""
    client = ApiClient(Access(_NO_ACCOUNT, kubeconfig))
    try:
        cluster = ApiCluster(client, SystemClock(), identity="test")
        yield cluster, RealPeople(client, namespace)
    finally:
        await client.close()


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, within_s: float = WITHIN_S
) -> None:
    """Return when it holds."""
    try:
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 -- another process moves
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:.0f} s: {what}") from None
