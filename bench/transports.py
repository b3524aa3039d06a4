"""What a transport costs the broker: the same requests of the official client over each, in turns.

    python bench/transports.py [--seconds 2] [--rounds 3]

One connection, one request after the other, one shard, a topic for each. CPU is the broker's, of
both processes. The first transport is what the others are compared with, round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Final

from apache_iggy import Consumer, IggyClient, PollingStrategy, SendMessage

from iggy_bench.processes import PASSWORD, USERNAME, Server, free_port, start_broker

CASES: Final = ((1, 100), (1000, 1000))  # messages of a request, bytes of a message
STREAM: Final = "bench"
POLLED: Final = 50  # requests' worth of messages that polls go over

Call = Callable[[], Awaitable[object]]


def settings(ports: dict[str, int], *, is_encrypted: bool) -> dict[str, str]:
    """A broker that serves everything, WebSocket and TCP encrypted or not."""
    tls = str(is_encrypted).lower()
    on = {f"IGGY_{name}_ENABLED": "true" for name in ports}
    at = {f"IGGY_{name}_ADDRESS": f"127.0.0.1:{port}" for name, port in ports.items()}
    return on | at | {"IGGY_TCP_TLS_ENABLED": tls, "IGGY_WEBSOCKET_TLS_ENABLED": tls}


async def connected(scheme: str, port: int, *, trusted: Path | None) -> IggyClient:
    """A client that is logged in; with TLS if there is a certificate to trust."""
    query = "" if trusted is None else f"?tls=true&tls_domain=localhost&tls_ca_file={trusted}"
    address = f"{scheme}://{USERNAME}:{PASSWORD}@127.0.0.1:{port}{query}"
    client = IggyClient.from_connection_string(address)
    await client.connect()
    return client


class Way:
    """One transport, with a topic of its own."""

    def __init__(self, name: str, server: Server, client: IggyClient) -> None:
        """Connected already."""
        self.name = name
        self.server = server
        self.client = client
        self.topic = name.replace(" ", "-")

    async def calls(self, messages: int, payload_bytes: int) -> tuple[Call, Call]:
        """A send and a poll of so many messages."""
        topic = f"{self.topic}-{messages}"
        await self.client.create_topic(STREAM, topic, 1)
        payload = "x" * payload_bytes

        async def send() -> None:
            batch = [SendMessage(payload) for _ in range(messages)]
            await self.client.send_messages(STREAM, topic, 0, batch)

        number = 0

        async def poll() -> None:
            nonlocal number
            number = (number + 1) % POLLED
            polled = await self.client.poll_messages(
                STREAM,
                topic,
                consumer=Consumer.Single(1),
                polling_strategy=PollingStrategy.Offset(number * messages),
                count=messages,
                auto_commit=False,
                partition_id=0,
            )
            assert len(polled) == messages

        for _ in range(POLLED):
            await send()
        return send, poll


async def timed(server: Server, call: Call, seconds: float) -> tuple[float, float]:
    """Requests in a second, and the broker's CPU in us for each."""
    count, began, before = 0, time.monotonic(), server.cpu_s()
    while (took := time.monotonic() - began) < seconds:
        await call()
        count += 1
    return count / took, (server.cpu_s() - before) / count * 1e6


async def measure(ways: list[Way], seconds: float, rounds: int) -> None:
    """Print a row for each kind of request and way."""
    print("| one request | over | requests/s | of the first | CPU µs | of the first |")
    print("|---|---|---|---|---|---|")
    for messages, payload_bytes in CASES:
        calls = {way.name: await way.calls(messages, payload_bytes) for way in ways}
        for place, verb in enumerate(("send", "poll")):
            seen: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
            for _ in range(rounds):
                for way in ways:
                    figures = await timed(way.server, calls[way.name][place], seconds)
                    seen[way.name].append(figures)
            first = seen[ways[0].name]
            for name, found in seen.items():
                pairs = list(zip(found, first, strict=True))
                rate, cpu = (median(one[at] for one in found) for at in (0, 1))
                ratios = [median(one[at] / other[at] for one, other in pairs) for at in (0, 1)]
                row = [f"{verb} {messages} × {payload_bytes} B", name]
                row += [f"{rate:,.0f}", f"{ratios[0]:.2f}", f"{cpu:,.0f}", f"{ratios[1]:.2f}"]
                print(f"| {' | '.join(row)} |", flush=True)


async def run(folder: Path, seconds: float, rounds: int) -> None:
    """Two brokers, since a port is either encrypted or not; every way in turns."""
    ways: list[Way] = []
    for is_encrypted in (False, True):
        ports = {"WEBSOCKET": free_port(), "QUIC": free_port()}
        made = settings(ports, is_encrypted=is_encrypted)
        server = start_broker(folder / str(is_encrypted), shards=1, settings=made)
        reached = {"TCP": ("iggy+tcp", server.port), "WebSocket": ("iggy+ws", ports["WEBSOCKET"])}
        for name, (scheme, port) in reached.items():
            trusted = folder / "True/data/tls/self_signed_cert.pem" if is_encrypted else None
            client = await connected(scheme, port, trusted=trusted)
            ways.append(Way(f"{name}, TLS" if is_encrypted else name, server, client))
        if is_encrypted:
            client = await connected("iggy+quic", ports["QUIC"], trusted=None)
            ways.append(Way("QUIC", server, client))
        await ways[-1].client.create_stream(STREAM)
    try:
        await measure(ways, seconds, rounds)
    finally:
        for server in {id(way.server): way.server for way in ways}.values():
            server.stop()


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), options.seconds, options.rounds))


if __name__ == "__main__":
    main()
