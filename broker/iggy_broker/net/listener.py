"""Listening sockets: the supervisor binds one per shard to one port, each shard listens.

The kernel spreads new connections over the sockets of one port (SO_REUSEPORT). Any process of the
same user could join in so too, hence a probe first: a second broker is told that the port is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Callable
from typing import Final

BACKLOG: Final = 4096  # connections that wait for accept; asyncio's own default of 100 loses SYNs
SPARE_FILES: Final = 512  # descriptors that connections must leave for logs and links


class ListenError(Exception):
    """An address that cannot be listened on. The text says which and what to change."""


def bind_all(host: str, port: int, count: int, *, key: str) -> list[socket.socket]:
    """`count` sockets bound to one address, not listening yet. `key` names the setting in errors.

    Port 0 lets the system pick a port, the same for all.
    """
    family, address = _resolve(host, port, key=key)
    sockets: list[socket.socket] = []
    try:
        if port:
            _probe(family, address)
        for _ in range(count):
            sockets.append(_bound(family, address))
            address = (host, sockets[0].getsockname()[1], *address[2:])
    except OSError as error:
        for sock in sockets:
            sock.close()
        hint = "stop who listens there, or change" if error.errno == errno.EADDRINUSE else "change"
        detail = f"cannot listen on {host}:{port}: {error.strerror}"
        raise ListenError(f"{detail}; {hint} {key}") from None
    return sockets


async def listen(
    sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]
) -> asyncio.AbstractServer:
    """Accept on a bound socket from now on."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(protocol, sock=sock, backlog=BACKLOG)


def raise_file_limit() -> int:
    """Use all descriptors that the system allows us; how many connections that is enough for.

    Connections beyond it are closed at once: a full descriptor table makes `accept` fail for ever.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return max(soft - SPARE_FILES, soft // 2)


def _resolve(host: str, port: int, *, key: str) -> tuple[int, tuple[object, ...]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(
            f"{host}: {error.strerror}; write an address of this machine in {key}"
        ) from None
    return found[0][0], found[0][4]


def _probe(family: int, address: tuple[object, ...]) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
