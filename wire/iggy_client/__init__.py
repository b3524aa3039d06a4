"""A small Iggy client, blocking and async, on top of iggy_wire."""

from iggy_client.async_client import AsyncClient
from iggy_client.client import Client, messages
from iggy_client.errors import ClientError, LinkError, LinkTimeoutError, SessionLostError

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "LinkError",
    "LinkTimeoutError",
    "SessionLostError",
    "messages",
]
