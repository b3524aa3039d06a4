"""The program while it may not work yet: definitions that are too old, a Lease that others have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from iggy_operator.objects import FINALIZER
from iggy_operator.program.api_kinds import OPENAPI_PATH
from operator_process import OperatorProcess
from published_kinds import published
from scripted_api import scripted, status, write_kubeconfig

WITHIN_S = 40.0
NAMESPACE = "/api/v1/namespaces/default"
KINDS = "/apis/iggykube.dev/v1alpha1/namespaces/default/"
HELD = {
    "metadata": {
        "name": "fraud",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "1",
        "finalizers": [FINALIZER],
    }
}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/iggy-operator"


class StartApi:
    """What the program asks before it works."""

    def __init__(self) -> None:
        self.openapi: dict[str, Any] | None = None
        self.others: list[str] = []
        self.version = 1
        self.is_ending = False
        self.let_go: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == OPENAPI_PATH:
            if self.openapi is None:
                return status(404, "not found")
            return web.json_response(self.openapi)
        if request.path == LEASE and request.method == "GET":
            self.version += 1  # its holder goes on renewing it
            metadata = {"name": "iggy-operator", "namespace": "default"}
            metadata["resourceVersion"] = str(self.version)
            spec = {"holderIdentity": "somebody-else", "leaseDurationSeconds": 3}
            return web.json_response({"kind": "Lease", "metadata": metadata, "spec": spec})
        if request.path == NAMESPACE and request.method == "GET":
            # Whether it ends, everybody looks.
            mark = {"deletionTimestamp": "2027-01-01T00:00:00Z"} if self.is_ending else {}
            return web.json_response({"kind": "Namespace", "metadata": {"name": "default", **mark}})
        if self.is_ending and request.path.startswith(KINDS):
            if request.method == "PATCH":
                self.let_go.append(request.path.removeprefix(KINDS))
            is_list = request.path == f"{KINDS}iggyusers"
            items = [HELD] if is_list else []
            is_one = request.path == f"{KINDS}iggyusers/fraud"
            return web.json_response(HELD if is_one else {"metadata": {}, "items": items})
        self.others.append(f"{request.method} {request.path}")
        return status(500, "nobody should ask for this")


def play(folder: Path, scenario: Callable[[StartApi, OperatorProcess], Awaitable[None]]) -> None:
    async def main() -> None:
        api = StartApi()
        async with scripted(api.answer) as server:
            kubeconfig = write_kubeconfig(folder / "kubeconfig", server.url)
            operator = OperatorProcess(folder, kubeconfig, {}).start()
            try:
                await asyncio.to_thread(lambda: operator.port)
                await scenario(api, operator)
                assert await asyncio.to_thread(operator.stop) == 0
            finally:
                operator.kill()

    asyncio.run(main())


async def asked(operator: OperatorProcess, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(operator.asked, path)


async def must_become(operator: OperatorProcess, path: str, wanted: tuple[int, str]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            code, text = await asked(operator, path)
            if code == wanted[0] and wanted[1] in text:
                return
            await asyncio.sleep(0.1)


def test_old_definitions_are_named_and_new_ones_are_enough_to_go_on(tmp_path: Path) -> None:
    async def scenario(api: StartApi, operator: OperatorProcess) -> None:
        await must_become(operator, "/readyz", (503, "does not know our kinds"))
        old = published()
        topic = old["components"]["schemas"]["dev.iggykube.v1alpha1.IggyTopic"]
        del topic["properties"]["status"]["properties"]["sinksSummary"]
        api.openapi = old
        await must_become(operator, "/readyz", (503, "IggyTopic.status.sinksSummary"))
        assert await asked(operator, "/healthz") == (200, "ok\n")
        assert api.others == []

        api.openapi = published()
        await must_become(operator, "/readyz", (200, "ok"))
        errors = [line["message"] for line in operator.lines() if line["level"] == "error"]
        assert len(errors) == 2
        assert "kubectl apply --server-side -f crds/" in errors[1]

    play(tmp_path, scenario)


def test_a_standby_is_ready_works_on_nothing_and_stops_at_once(tmp_path: Path) -> None:
    async def scenario(api: StartApi, operator: OperatorProcess) -> None:
        api.openapi = published()
        await must_become(operator, "/readyz", (200, "ok"))
        await must_become(operator, "/metrics", (200, "iggy_operator_leader 0.0"))
        version = api.version
        async with asyncio.timeout(WITHIN_S):
            while api.version < version + 3:  # noqa: ASYNC110 -- the program asks
                await asyncio.sleep(0.05)

        assert api.others == []
        assert "somebody-else" not in json.dumps(operator.lines())

    play(tmp_path, scenario)


def test_one_that_is_stopped_because_its_namespace_ends_lets_go_first(tmp_path: Path) -> None:
    async def scenario(api: StartApi, operator: OperatorProcess) -> None:
        api.openapi = published()
        await must_become(operator, "/readyz", (200, "ok"))

        api.is_ending = True
        assert await asyncio.to_thread(operator.stop) == 0

        assert set(api.let_go) == {"iggyusers/fraud"}

    play(tmp_path, scenario)
