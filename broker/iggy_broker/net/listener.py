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
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iggy_broker.config import Config
from iggy_broker.config_transports import Tls
from iggy_broker.config_values import Address
from iggy_broker.storage.disk import OPEN_FILES_MAX

BACKLOG: Final = 4096  # connections that wait for accept; asyncio's own default of 100 loses SYNs
HANDSHAKE_S_MAX: Final = 10.0  # of TLS; then the connection is closed
DATAGRAMS_BYTES: Final = 4 << 20  # wished for in each direction; the system may give less
SHUTDOWN_S_MAX: Final = 2.0  # for the last words of a TLS connection
SPARE_FILES: Final = 512  # descriptors for links, slow readers and moments; a quarter if few
FILES_UNLIMITED: Final = 1 << 20  # as good as no limit: connections and logs have their own


class ListenError(Exception):
    """An address that cannot be listened on. The text says which and what to change."""


def bind_all(
    host: str, port: int, count: int, *, key: str, kind: int = socket.SOCK_STREAM
) -> list[socket.socket]:
    """`count` sockets bound to one address, not listening yet. `key` names the setting in errors.

    Port 0 lets the system pick a port, the same for all. `kind`: SOCK_DGRAM for UDP.
    """
    family, address = _resolve(host, port, key=key)
    sockets: list[socket.socket] = []
    try:
        if port:
            _probe(family, address, kind)
        for _ in range(count):
            sockets.append(_bound(family, address, kind))
            address = (host, sockets[0].getsockname()[1], *address[2:])
    except OSError as error:
        for sock in sockets:
            sock.close()
        hint = "stop who listens there, or change" if error.errno == errno.EADDRINUSE else "change"
        detail = f"cannot listen on {host}:{port}: {error.strerror}"
        raise ListenError(f"{detail}; {hint} {key}") from None
    return sockets


def addresses_of(config: Config) -> dict[str, Address]:
    """Where clients are listened for, by the name of the settings' table. TCP always has a port."""
    found = {"tcp": config.tcp.address}
    if config.websocket.enabled:
        found["websocket"] = config.websocket.address
    if config.http.enabled:
        found["http"] = config.http.address
    if config.quic.enabled:
        found["quic"] = config.quic.address
    return found


def tls_of(config: Config) -> dict[str, Tls]:
    """The listeners that are on and have TLS, by the same names."""
    found = {
        "tcp": (config.tcp.enabled, config.tcp.tls),
        "websocket": (config.websocket.enabled, config.websocket.tls),
        "http": (config.http.enabled, config.http.tls),
        "quic": (config.quic.enabled, config.quic.certificate.tls),
    }
    return {name: tls for name, (is_on, tls) in found.items() if is_on and tls.enabled}


async def listen(
    sock: socket.socket,
    protocol: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext | None = None,
) -> asyncio.AbstractServer:
    """Accept on a bound socket from now on, with TLS if there is a context for it."""
    loop = asyncio.get_running_loop()
    if context is None:
        return await loop.create_server(protocol, sock=sock, backlog=BACKLOG)
    return await loop.create_server(
        protocol,
        sock=sock,
        backlog=BACKLOG,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_S_MAX,
        ssl_shutdown_timeout=SHUTDOWN_S_MAX,
    )


@dataclass(frozen=True, slots=True)
class FileBudget:
    """How a process divides its descriptors, so that none of its parts ever finds the table full.

    Connections beyond theirs are closed at once: without a free descriptor `accept` fails for ever.
    """

    connections: int
    logs: int  # kept open; the disk closes and opens what is beyond

    @classmethod
    def of(cls, limit: int) -> FileBudget:
        """The shares of so many descriptors."""
        spare, logs = min(SPARE_FILES, limit // 4), min(OPEN_FILES_MAX, limit // 4)
        return cls(limit - spare - logs, logs)


def raise_file_limit() -> FileBudget:
    """Use all descriptors that the system allows us, and divide them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return FileBudget.of(FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft)


def _resolve(host: str, port: int, *, key: str) -> tuple[int, tuple[object, ...]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(
            f"{host}: {error.strerror}; write an address of this machine in {key}"
        ) from None
    return found[0][0], found[0][4]


def _probe(family: int, address: tuple[object, ...], kind: int) -> None:
    with socket.socket(family, kind) as sock:
        _reuse(sock)
        sock.bind(address)


def _reuse(sock: socket.socket) -> None:
    """Bind beside connections that have ended. For UDP the same would let anybody in."""
    if sock.type == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def _bound(family: int, address: tuple[object, ...], kind: int) -> socket.socket:
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        _reuse(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if kind == socket.SOCK_DGRAM:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, DATAGRAMS_BYTES)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
