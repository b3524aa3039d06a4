"""The official client, over whichever transport: it logs in, sends and reads what it has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from apache_iggy import Consumer, IggyClient, PollingStrategy, SendMessage

from broker_process import PASSWORD, USERNAME


def sent_and_polled(config: Any, stream: str, partitions: int, texts: Sequence[str]) -> Any:
    """What it polls of each partition of topic `t`, after it sent the texts there."""

    async def run() -> list[list[str]]:
        client = IggyClient(config)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        found = []
        for partition in range(partitions):
            sent = [SendMessage(text) for text in texts]
            await client.send_messages(stream, "t", partition, sent)
            polled = await client.poll_messages(
                stream,
                "t",
                consumer=Consumer.Single("reader"),
                polling_strategy=PollingStrategy.First(),
                count=10,
                auto_commit=True,
                partition_id=partition,
            )
            found.append([message.payload().decode() for message in polled])
        return found

    return asyncio.run(run())
