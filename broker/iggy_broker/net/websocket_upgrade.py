"""WebSocket, the handshake (RFC 6455, chapter 4), of a server. Sans-IO.

Any path, no subprotocol, no extension: what the original takes, and official clients send.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

REQUEST_BYTES_MAX: Final = 8 * 1024  # of an upgrade request
END: Final = b"\r\n\r\n"

_MAGIC: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_KEY_BYTES: Final = 16
_VERSION: Final = "13"


class UpgradeError(Exception):
    """A request that is no handshake. `response` is the answer, after which the client goes."""

    def __init__(self, status: str, why: str) -> None:
        """`status` as in the status line; `why` is the body."""
        super().__init__(why)
        body = f"{why}\n"
        lines = [
            f"HTTP/1.1 {status}",
            f"Sec-WebSocket-Version: {_VERSION}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        self.response = ("\r\n".join([*lines, "", body])).encode("latin-1", "replace")


def answer(request: bytes) -> bytes:
    """The response to a whole request (up to and with the empty line). UpgradeError: no handshake.

    Header names are compared in any case; of a header that comes twice the values are joined.
    """
    first, *lines = request.removesuffix(END).decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    if not rest.partition(" ")[2].startswith("HTTP/1."):
        raise UpgradeError("400 Bad Request", "this port speaks WebSocket")
    if method != "GET":
        raise UpgradeError("405 Method Not Allowed", "ask for a WebSocket with GET")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    is_upgrade = "upgrade" in _tokens(headers, "connection")
    if not is_upgrade or "websocket" not in _tokens(headers, "upgrade"):
        raise UpgradeError("426 Upgrade Required", "this port speaks WebSocket")
    if headers.get("sec-websocket-version") != _VERSION:
        raise UpgradeError("426 Upgrade Required", "write Sec-WebSocket-Version: 13")
    key = headers.get("sec-websocket-key", "")
    if not _is_key(key):
        raise UpgradeError("400 Bad Request", "Sec-WebSocket-Key is not 16 bytes in base64")
    digest = hashlib.sha1((key + _MAGIC).encode(), usedforsecurity=False).digest()
    accepted = base64.b64encode(digest).decode()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accepted}",
    ]
    return ("\r\n".join(lines)).encode() + END


def _tokens(headers: dict[str, str], name: str) -> set[str]:
    return {token.strip().lower() for token in headers.get(name, "").split(",")}


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
