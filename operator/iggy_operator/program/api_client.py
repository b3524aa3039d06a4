"""One request to the API server, on the official client: JSON in and out, errors by class.

Retries nothing besides one new login: whoever asked has its own back-off. No body is ever logged or
shown in an error but the server's own words, since bodies may be Secrets.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True, eq=False)
class _Session:
    """The official client with one set of credentials. One that is replaced serves to its end."""

    official: OfficialClient
    requests: int = 0
    is_replaced: bool = False


class ApiClient:
    """Requests to one API server."""

    def __init__(self, access: Access, *, request_s: float = REQUEST_S) -> None:
        """Connects when somebody asks for something."""
        self._access = access
        self._timeout = aiohttp.ClientTimeout(total=request_s, sock_connect=CONNECT_S)
        self._session: _Session | None = None
        self._login = asyncio.Lock()

    async def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            await self._session.official.close()
            self._session = None

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
        payload = (query, body, content)
        try:
            session = await self._current(None)
            response = await self._send(session, method, path, payload)
            if response.status == _UNAUTHENTICATED:
                session = await self._current(session)
                response = await self._send(session, method, path, payload)
        except AccessError as error:
            raise UnreachableError(str(error)) from error
        except _LOST as error:
            text = f"{method} {path}: {type(error).__name__}: {error}"
            raise UnreachableError(text.rstrip(": ")) from error
        if response.status not in _OK:
            raise _refusal(f"{method} {path}", response, await response.read())
        try:
            return json.loads(await response.read())
        except ValueError as error:
            raise UnreachableError(f"{method} {path}: the answer is no JSON") from error

    async def _current(self, refused: _Session | None) -> _Session:
        """The session, made anew if it is the one that was refused: once for all who were."""
        async with self._login:
            if self._session is None or self._session is refused:
                await self._access.load()
                configuration = self._access.configuration
                configuration.connection_pool_maxsize = CONNECTIONS_MAX
                official = OfficialClient(configuration)
                official.user_agent = "iggy-operator"
                self._session = _Session(official)
            if refused is not None and not refused.is_replaced:
                refused.is_replaced = True
                await self._close_replaced(refused)
            return self._session

    async def _close_replaced(self, session: _Session) -> None:
        if session.is_replaced and session.requests == 0:
            await session.official.close()

    async def _send(
        self, session: _Session, method: str, path: str, payload: tuple[Any, Any, str]
    ) -> RESTResponse:
        """An answer that is read to its end."""
        query, body, content = payload
        headers = {"Content-Type": content, "Accept": _JSON}
        if (authorization := await self._access.authorization()) is not None:
            headers["Authorization"] = authorization
        session.requests += 1
        try:
            parts = await session.official.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
            )
            response = await session.official.call_api(*parts, _request_timeout=self._timeout)
            await response.read()
        finally:
            session.requests -= 1
            await self._close_replaced(session)
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
