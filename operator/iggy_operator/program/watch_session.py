"""The HTTP session that kopf watches with: fresh credentials, and an ear for what comes in.

kopf tells its handlers of events only. Whether a quiet watch still lives is told by the bookmarks
that the server sends each minute, so every byte of a watch counts as a sign of life.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, cast

import aiohttp
import kopf
from kubernetes.aio.client.rest import RESTClientObject

from iggy_operator.program.api_access import Access

_OK: Final = 200


async def open_session(access: Access, heard: Callable[[str], None]) -> kopf.AiohttpSession:
    """Made anew by kopf when the server refuses the credentials. `heard(path)`: of a watch.

    Raises AccessError.
    """
    await access.load()

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if (value := await access.authorization()) is not None:
            request.headers["Authorization"] = value
        return await handler(request)

    configuration = access.configuration
    context = RESTClientObject(configuration).ssl_context
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context),
        response_class=_listening(heard),
        middlewares=(authorize,),
        proxy=configuration.proxy,
        headers={"User-Agent": "iggy-operator"},
    )
    return kopf.AiohttpSession(server=configuration.host, aiohttp_session=session)


def _listening(heard: Callable[[str], None]) -> type[aiohttp.ClientResponse]:
    class Response(aiohttp.ClientResponse):
        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            response = await super().start(connection)
            if self.status == _OK and self.url.query.get("watch") == "true":
                path = self.url.path
                heard(path)
                listened = _Listened(self.content, lambda: heard(path))
                self.content = cast(aiohttp.StreamReader, listened)
            return response

    return Response


class _Listened:
    """A stream of bytes that says when some come."""

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content = content
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for data in self._content.iter_chunked(size):
            self._heard()
            yield data
