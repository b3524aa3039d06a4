"""Requests to an API server that is down, slow, full or says no."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from iggy_operator.cluster import (
    ClusterError,
    ConflictError,
    DeniedError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerFailedError,
    ThrottledError,
    UnreachableError,
)
from iggy_operator.program.api_client import ApiClient
from scripted_api import Answer, access_to, scripted, status

SECRET = "c2VjcmV0LW9mLXRlc3Rz"


async def refused(
    folder: Path, answer: Answer, *, request_s: float = 10.0, url: str = ""
) -> ClusterError:
    """What a request with a Secret in it is refused with."""
    async with scripted(answer) as api:
        client = ApiClient(access_to(folder, url or api.url), request_s=request_s)
        try:
            await client.request("PATCH", "/api/v1/x", body={"data": {"password": SECRET}})
        except ClusterError as error:
            return error
        finally:
            await client.close()
    raise AssertionError("it was not refused")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (403, DeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (422, InvalidError),
        (429, ThrottledError),
        (500, ServerFailedError),
        (503, ServerFailedError),
    ],
)
def test_every_refusal_has_its_class_and_the_servers_words(
    code: int, kind: type[ClusterError], tmp_path: Path
) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(code, "the server's own words")

    error = asyncio.run(refused(tmp_path, answer))

    assert type(error) is kind
    assert "the server's own words" in str(error)
    assert SECRET not in str(error)


def test_a_full_server_says_when_to_come_back(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(429, "too many", Retry_After="7")

    error = asyncio.run(refused(tmp_path, answer))

    assert isinstance(error, ThrottledError)
    assert error.retry_after_s == 7


def test_a_server_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("never")

    error = asyncio.run(refused(tmp_path, answer, request_s=0.1))

    assert isinstance(error, UnreachableError)


def test_a_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        raise AssertionError("nobody asks here")

    error = asyncio.run(refused(tmp_path, answer, url="http://127.0.0.1:1"))

    assert isinstance(error, UnreachableError)
    assert error.status == 0


def test_an_answer_that_is_cut_off_is_none(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": ')
        assert request.transport is not None
        request.transport.abort()
        return response

    assert isinstance(asyncio.run(refused(tmp_path, answer)), UnreachableError)


def test_a_token_that_was_replaced_is_read_again_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"].lower() == "bearer new":
            return web.json_response({"kind": "Pod"})
        token.write_text("new")  # as the kubelet does, a moment before
        return status(401, "Unauthorized")

    async def main() -> list[str]:
        async with scripted(answer) as api:
            client = ApiClient(access_to(tmp_path, api.url, token))
            assert await client.get("/api/v1/x") == {"kind": "Pod"}
            assert await client.get("/api/v1/x") == {"kind": "Pod"}
            await client.close()
            return [text.lower() for text in api.tokens]

    assert asyncio.run(main()) == ["bearer old", "bearer new", "bearer new"]


def test_many_who_are_refused_at_once_log_in_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    old = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal old
        if request.headers["Authorization"].lower() == "bearer new":
            return web.json_response({})
        old += 1
        token.write_text("new")
        return status(401, "Unauthorized")

    async def main() -> None:
        async with scripted(answer) as api:
            client = ApiClient(access_to(tmp_path, api.url, token))
            answers = await asyncio.gather(*(client.get("/api/v1/x") for _ in range(10)))
            assert answers == [{}] * 10
            await client.close()

    asyncio.run(main())
    assert old <= 10


def test_who_is_still_refused_after_a_new_login_is_told(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(401, "Unauthorized")

    error = asyncio.run(refused(tmp_path, answer))

    assert type(error) is ClusterError
    assert "401 Unauthorized" in str(error)


def test_without_any_way_to_a_server_the_fix_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        access = access_to(tmp_path, "http://127.0.0.1:1")
        (tmp_path / "kubeconfig").unlink()
        client = ApiClient(access)
        with pytest.raises(UnreachableError, match="set KUBECONFIG"):
            await client.get("/api/v1/x")

    asyncio.run(main())


def test_a_service_accounts_token_is_used_inside_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "ca.crt").write_text("a certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    async def main() -> tuple[str, str | None]:
        access = access_to(tmp_path, "http://unused")
        access._folder = tmp_path
        await access.load()
        return access.configuration.host, await access.authorization()

    host, authorization = asyncio.run(main())

    assert host == "https://[fd00::1]:443"
    assert authorization is not None
    assert authorization.lower() == "bearer of-the-pod"


def test_lists_come_in_pages_and_say_what_they_hold(tmp_path: Path) -> None:
    from iggy_operator.clock import SystemClock
    from iggy_operator.program.api_cluster import ApiCluster

    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, dict(request.query)))
        place = request.query.get("continue", "")
        item = {"metadata": {"name": f"p{place}", "namespace": "a"}}
        following = {"": "1", "1": "2", "2": ""}[place]
        return web.json_response({"metadata": {"continue": following}, "items": [item]})

    async def main() -> list[str]:
        async with scripted(answer) as api:
            client = ApiClient(access_to(tmp_path, api.url))
            cluster = ApiCluster(client, SystemClock(), identity="me", namespaces=("a", "b"))
            found = await cluster.list("Pod", labels={"x/y": "1", "z": "2"})
            await client.close()
            assert {json.dumps([item["kind"], item["apiVersion"]]) for item in found} == {
                '["Pod", "v1"]'
            }
            return [item["metadata"]["name"] for item in found]

    assert asyncio.run(main()) == ["p", "p1", "p2"] * 2
    assert [path for path, _ in asked] == ["/api/v1/namespaces/a/pods"] * 3 + [
        "/api/v1/namespaces/b/pods"
    ] * 3
    assert asked[0][1] == {"limit": "500", "labelSelector": "x/y=1,z=2"}


def test_a_namespace_that_took_our_role_along_leaves_the_lists_of_the_others_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from iggy_operator.clock import SystemClock
    from iggy_operator.program.api_cluster import ApiCluster

    denied = {"gone"}

    async def answer(request: web.Request) -> web.StreamResponse:
        namespace = request.path.split("/")[4]
        if namespace in denied:
            return status(403, f"you may not list pods in {namespace}")
        return web.json_response({"items": [{"metadata": {"name": "p", "namespace": namespace}}]})

    async def main() -> None:
        async with scripted(answer) as api:
            client = ApiClient(access_to(tmp_path, api.url))
            cluster = ApiCluster(client, SystemClock(), identity="me", namespaces=("a", "gone"))
            found = await cluster.list("Pod")
            assert [item["metadata"]["namespace"] for item in found] == ["a"]
            assert "you may not list pods in gone" in caplog.text

            # Where nothing is left to work on, that is trouble; and who asks for one is told.
            denied.add("a")
            with pytest.raises(DeniedError):
                await cluster.list("Pod")
            denied.remove("a")
            with pytest.raises(DeniedError):
                await cluster.list("Pod", namespace="gone")
            await client.close()

    asyncio.run(main())
