"""The listeners that a shard opens, last of all its parts.

What only some brokers serve is imported here, when it is on: each is as large as all the rest. The
supervisor has imported it before the fork, so that the shards share it.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from iggy_broker import lean_imports
from iggy_broker.config import Config
from iggy_broker.metrics import SharedCounters
from iggy_broker.net.context import Services
from iggy_broker.net.edge import Edge
from iggy_broker.net.v08.first_contact import FirstContact, FirstTlsContact
from iggy_broker.surroundings import Surroundings


def import_for(config: Config) -> None:
    """Import what is needed for what is on."""
    if config.http.enabled or config.monitoring.enabled:
        lean_imports.import_aiohttp()
    if config.quic.enabled:
        lean_imports.import_aioquic()
    wanted = {
        "iggy_broker.net.websocket": config.websocket.enabled,
        "iggy_broker.net.quic": config.quic.enabled,
        "iggy_broker.net.http.server": config.http.enabled,
        "iggy_broker.net.monitoring": config.monitoring.enabled,
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            importlib.import_module(name)


@dataclass(frozen=True, slots=True)
class HttpSecrets:
    """What all shards know of the tokens of HTTP."""

    secret: bytes  # signs them
    revoked: dict[str, int]  # those that were logged out in earlier lives, by `jti`: when they end


async def open_transports(
    edge: Edge,
    around: Surroundings,
    listeners: Mapping[str, socket.socket],
    parts: contextlib.AsyncExitStack,
    *,
    http: HttpSecrets | None,
) -> None:
    """Let clients in from now on, until `parts` are closed. `listeners`: bound sockets by name."""
    config, certificates = edge.services.config, edge.services.certificates
    contexts = {name: listener.context for name, listener in certificates.items()}
    if config.tcp.enabled:
        context = contexts.get("tcp")
        kind = FirstContact if context is None else FirstTlsContact
        server = await around.listen(listeners["tcp"], lambda: kind(edge), context)
        parts.callback(server.close)
    if "websocket" in listeners:
        from iggy_broker.net.websocket import WebSocket, limits_of

        limits = limits_of(config.websocket, edge.frame_bytes_max)
        server = await around.listen(
            listeners["websocket"], lambda: WebSocket(edge, limits), contexts.get("websocket")
        )
        parts.callback(server.close)
    if "quic" in listeners:
        from iggy_broker.net.quic import QuicDoor

        door = QuicDoor(edge, config.quic, certificates["quic"])
        await around.listen_to_datagrams(listeners["quic"], door)
        parts.callback(door.close)
        parts.callback(edge.loop.create_task(door.keep_alive()).cancel)
    if http is not None:
        from iggy_broker.net.http.server import HttpServer

        serving = HttpServer(edge, secret=http.secret, revoked=http.revoked)
        edge.services.http = serving
        serving.listening = await around.listen(listeners["http"], serving, contexts.get("http"))


async def open_monitoring(
    services: Services,
    shared: SharedCounters,
    sock: socket.socket,
    parts: contextlib.AsyncExitStack,
) -> None:
    """Serve probes and metrics from now on, until `parts` are closed."""
    from iggy_broker.net.monitoring import Monitoring

    monitoring = Monitoring(services, shared)
    await monitoring.start(sock)
    parts.push_async_callback(monitoring.close)
