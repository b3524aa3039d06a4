"""One request to the API server, on the official client: JSON in and out, errors by class.

Retries nothing besides one new login: whoever asked has its own back-off. No body is ever logged or
shown in an error but the server's own words, since bodies may be Secrets.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiohttp
from kubernetes.aio.client.api_client import ApiClient as OfficialClient
from kubernetes.aio.client.rest import RESTResponse

from iggy_operator.cluster import ClusterError, UnreachableError, error_of
from iggy_operator.program.api_access import Access, AccessError

REQUEST_S: Final = 30.0
CONNECT_S: Final = 10.0
CONNECTIONS_MAX: Final = 16
MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Of what a server says in a refusal."""
RETRY_S_MAX: Final = 300.0
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
_JSON: Final = "application/json"
_UNAUTHENTICATED: Final = 401
_OK: Final = range(200, 300)
_LOST: Final = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class ApiClient:
    """Requests to one API server."""

    def __init__(self, access: Access, *, request_s: float = REQUEST_S) -> None:
        """Connects when somebody asks for something."""
        self._access = access
        self._timeout = aiohttp.ClientTimeout(total=request_s, sock_connect=CONNECT_S)
        self._official: OfficialClient | None = None
        self._login = asyncio.Lock()

    async def close(self) -> None:
        """End the connections."""
        if self._official is not None:
            await self._official.close()
            self._official = None

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """An object, or a page of a list. Raises ClusterError."""
        return await self.request("GET", path, query=query)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        content: str = _JSON,
    ) -> Any:
        """What the server answers. Raises ClusterError."""
        try:
            official = await self._client()
            response = await self._send(official, method, path, query, (body, content))
            if response.status == _UNAUTHENTICATED:
                official = await self._login_again(official)
                response = await self._send(official, method, path, query, (body, content))
            data = await response.read()
        except AccessError as error:
            raise UnreachableError(str(error)) from error
        except _LOST as error:
            text = f"{method} {path}: {type(error).__name__}: {error}"
            raise UnreachableError(text.rstrip(": ")) from error
        if response.status not in _OK:
            raise _refusal(f"{method} {path}", response, data)
        try:
            return json.loads(data)
        except ValueError as error:
            raise UnreachableError(f"{method} {path}: the answer is no JSON") from error

    async def _client(self) -> OfficialClient:
        async with self._login:
            if self._official is None:
                await self._access.load()
                self._open()
            assert self._official is not None, "just opened"
            return self._official

    def _open(self) -> None:
        configuration = self._access.configuration
        configuration.connection_pool_maxsize = CONNECTIONS_MAX
        self._official = OfficialClient(configuration)
        self._official.user_agent = "iggy-operator"

    async def _login_again(self, refused: OfficialClient) -> OfficialClient:
        """New credentials, once for all who were refused with the old ones."""
        async with self._login:
            if self._official is refused:
                await self._access.load()
                await refused.close()
                self._open()
            assert self._official is not None, "opened before"
            return self._official

    async def _send(
        self,
        official: OfficialClient,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        payload: tuple[Any, str],
    ) -> RESTResponse:
        body, content = payload
        headers = {"Content-Type": content, "Accept": _JSON}
        if (authorization := await self._access.authorization()) is not None:
            headers["Authorization"] = authorization
        parts = await official.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params=headers,
            body=body,
        )
        response = await official.call_api(*parts, _request_timeout=self._timeout)
        await response.read()
        return response


def _refusal(what: str, response: RESTResponse, data: bytes) -> ClusterError:
    try:
        status: Any = json.loads(data)
        said = str(status.get("message", "")) if isinstance(status, dict) else ""
    except ValueError:
        said = ""
    retry_s = 1.0
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():  # also asked for with 5xx, where our back-off is longer anyway
        retry_s = min(float(text), RETRY_S_MAX)
    message = f"{what}: {response.status} {said or response.reason or ''}"
    return error_of(
        response.status, message[:MESSAGE_CHARACTERS_MAX].rstrip(), retry_after_s=retry_s
    )
