"""Sends flights with the official client, as any producer would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pyarrow as pa
from apache_iggy import (
    AutoLogin,
    IggyClient,
    Partitioning,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)

from flights_demo.flights import json_rows
from flights_demo.plan import ForeignData, Request


async def connect(address: str, username: str, password: str) -> IggyClient:
    """A client that is logged in; it gives up after a few tries instead of waiting for ever."""
    client = IggyClient(
        TcpConfig(
            server_address=address,
            auto_login=AutoLogin.username_password(username, password),
            reconnection=TcpReconnectionConfig(max_retries=5, interval=timedelta(seconds=1)),
            nodelay=True,
        )
    )
    await client.connect()
    return client


async def next_offsets(client: IggyClient, stream: str, topic: str) -> list[int]:
    """Where each partition goes on: the offset that its next message will get."""
    details = await client.get_topic(stream, topic)
    if details is None:
        raise RuntimeError(f"topic {topic!r} of stream {stream!r} does not exist")
    partitions = sorted(details.partitions, key=lambda partition: partition.id)
    return [
        partition.current_offset + 1 if partition.messages_count else 0 for partition in partitions
    ]


async def send(
    client: IggyClient,
    target: tuple[str, str],
    flights: pa.Table,
    requests: Sequence[Request],
    *,
    sent: Callable[[Request], bool],
) -> None:
    """Sends the requests in order; `sent` hears of each that was acknowledged: True goes on."""
    stream, topic = target
    for request in requests:
        messages = [SendMessage(row) for row in json_rows(flights, request.rows)]
        key = Partitioning.messages_key(request.carrier)
        response = await client.send_messages(stream, topic, key, messages)
        for confirmed in response.confirmations:
            landed = (confirmed.partition_id, confirmed.base_offset)
            if landed != (request.partition_id, request.base_offset):
                raise ForeignData(
                    f"flights of {request.carrier} landed at partition, offset {landed}, not at "
                    f"{(request.partition_id, request.base_offset)}: someone else sends here too"
                )
        if not sent(request):
            return
