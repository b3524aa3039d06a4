"""A small Iggy client, blocking and async, on top of iggy_wire."""

from iggy_client.async_client import AsyncClient
from iggy_client.client import Client, messages
from iggy_client.errors import ClientError, LinkError, LinkTimeoutError, SessionLostError
from iggy_client.keep_alive import KeptAlive
from iggy_client.tls import Tls

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "KeptAlive",
    "LinkError",
    "LinkTimeoutError",
    "SessionLostError",
    "Tls",
    "messages",
]
