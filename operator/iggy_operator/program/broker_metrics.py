"""Some lines of the metrics of a broker or a driver, read by HTTP without a login."""

from typing import Final

import aiohttp

from iggy_operator.figures import FiguresError

REQUEST_S: Final = 10.0
CONNECT_S: Final = 5.0
BYTES_MAX: Final = 32 << 20
"""More is not read: a broker leaves series out long before."""
_OK: Final = 200
_COMMENT: Final = "#"


async def read_metrics(address: str, prefix: str) -> list[str]:
    """The lines that begin with `prefix`, which stand together: the rest is not awaited.

    `address` is HOST:PORT. Raises FiguresError.
    """
    timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{address}/metrics", allow_redirects=False) as answer,
        ):
            if answer.status != _OK:
                raise FiguresError(f"http://{address}/metrics answers {answer.status}")
            return await _lines(answer.content, prefix)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        text = f"http://{address}/metrics: {type(error).__name__}: {error}"
        raise FiguresError(text.rstrip(": ")) from error


async def _lines(content: aiohttp.StreamReader, prefix: str) -> list[str]:
    found: list[str] = []
    read_bytes = 0
    async for data in content:
        read_bytes += len(data)
        line = data.decode("utf-8", "replace").rstrip()
        if line.startswith(prefix):
            found.append(line)
        elif (found and not line.startswith(_COMMENT)) or read_bytes > BYTES_MAX:
            break
    return found
