"""What sending and polling cost over HTTP, beside our TCP path and a bare aiohttp handler.

    python bench/http_paths.py [--seconds 2] [--rounds 3]

One connection, one request after the other, one shard. The bare handler takes the same request in
and answers with the same bytes, and does nothing else: no JSON, no login, no message. The three
take turns. Then the stages of one request, each timed alone on the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from iggy_bench import processes
from iggy_bench.processes import PASSWORD, USERNAME, Server, free_port
from iggy_broker.heap import return_large_blocks
from iggy_broker.net.http import bodies, sending
from iggy_broker.net.http.polled import polled_json
from iggy_client import Client
from iggy_wire import batch

CASES: Final = ((1, 100), (100, 100), (1000, 1000))  # messages of a request, bytes of a message
TARGET: Final = "/streams/bench/topics/t/messages"
JSON: Final = {"Content-Type": "application/json"}
HEAD: Final = (
    "| one request | requests/s | CPU µs | CPU µs of TCP | of the bare handler | HTTP : TCP | "
    "HTTP : bare handler |"
)
WAYS: Final = ("HTTP", "TCP", "bare handler")
BARE: Final = """
import asyncio, sys, uvloop
from aiohttp.web import Response, Server

async def main(port, answers):
    async def serve(request):
        while await request.content.readany():
            pass
        return Response(body=answers[request.method], content_type="application/json")
    server = await asyncio.get_running_loop().create_server(
        Server(serve, access_log=None), "127.0.0.1", port)
    await server.serve_forever()

files = {"POST": sys.argv[2], "GET": sys.argv[3]}
answers = {method: open(path, "rb").read() for method, path in files.items()}
uvloop.run(main(int(sys.argv[1]), answers))
"""


@dataclass(frozen=True)
class Cost:
    """Of one way in one round."""

    requests_per_s: float
    cpu_us: float  # of the server, per request


class Asking:
    """One kept-alive connection of HTTP."""

    def __init__(self, port: int, token: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = JSON | {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer, which must be a good one."""
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        found = response.read()
        assert response.status in (200, 201), (response.status, found[:200])
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def measured(server: Server, work: Callable[[], object], seconds: float) -> Cost:
    """Do it again and again for so long."""
    for _ in range(20):
        work()
    cpu_s, began, count = server.cpu_s(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        work()
        count += 1
    took = time.perf_counter() - began
    return Cost(count / took, (server.cpu_s() - cpu_s) / count * 1e6)


@contextmanager
def bare(folder: Path, answers: dict[str, bytes]) -> Iterator[Server]:
    """The bare handler with these answers by method."""
    program = folder / "bare.py"
    program.write_text(BARE)
    for method, answer in answers.items():
        (folder / method).write_bytes(answer)
    port = free_port()
    command = [sys.executable, str(program), str(port), *(str(folder / one) for one in answers)]
    server = Server("bare handler", port, subprocess.Popen(command))
    processes._wait(server, lambda: processes._accepts(port))
    try:
        yield server
    finally:
        server.kill()


def body_of(count: int, size: int) -> bytes:
    """A send to partition 0."""
    payload = base64.b64encode(b"x" * size).decode()
    messages = [{"payload": payload} for _ in range(count)]
    where = {"kind": "partition_id", "value": "AAAAAA=="}
    return json.dumps({"partitioning": where, "messages": messages}).encode()


def rows(folder: Path, seconds: float, rounds: int) -> Iterator[str]:
    """One table row for each case and direction."""
    http_port = free_port()
    settings = {"IGGY_HTTP_ENABLED": "true", "IGGY_HTTP_ADDRESS": f"127.0.0.1:{http_port}"}
    with (
        processes.start_broker(folder / "broker", shards=1, settings=settings) as broker,
        Client.connect(broker.address, USERNAME, PASSWORD) as client,
    ):
        login = json.dumps({"username": USERNAME, "password": PASSWORD}).encode()
        with closing(Asking(http_port)) as stranger:
            answer = json.loads(stranger.ask("POST", "/users/login", login))
        client.create_stream("bench")
        with closing(Asking(http_port, answer["access_token"]["token"])) as asking:
            for count, size in CASES:
                yield from case(folder, (broker, client, asking), count, size, seconds, rounds)


def case(
    folder: Path, parts: tuple[Server, Client, Asking], count: int, size: int, seconds: float,
    rounds: int,
) -> Iterator[str]:  # fmt: skip
    """Send, then poll."""
    broker, client, asking = parts
    client.create_topic("bench", "t", 1)
    body = body_of(count, size)
    made = batch.build([batch.Message(b"x" * size)] * count, origin_timestamp_us=1)
    poll = f"{TARGET}?partition_id=0&kind=offset&value=0&count={count}"
    answers = {"POST": asking.ask("POST", TARGET, body), "GET": asking.ask("GET", poll)}
    with bare(folder, answers) as handler, closing(Asking(handler.port)) as plain:
        works: dict[str, dict[str, tuple[Server, Callable[[], object]]]] = {
            "send": {
                "HTTP": (broker, lambda: asking.ask("POST", TARGET, body)),
                "TCP": (broker, lambda: client.send_batch("bench", "t", 0, made)),
                "bare handler": (handler, lambda: plain.ask("POST", TARGET, body)),
            },
            "poll": {
                "HTTP": (broker, lambda: asking.ask("GET", poll)),
                "TCP": (broker, lambda: client.poll("bench", "t", 0, count=count)),
                "bare handler": (handler, lambda: plain.ask("GET", poll)),
            },
        }
        for direction, ways in works.items():
            found: dict[str, list[Cost]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    found[way].append(measured(*ways[way], seconds))
            yield row(f"{direction} {count} × {size} B", found)
    client.delete_topic("bench", "t")


def row(name: str, found: dict[str, list[Cost]]) -> str:
    """Medians, and HTTP as a ratio to the others."""
    rate = {way: median(one.requests_per_s for one in costs) for way, costs in found.items()}
    cpu = {way: median(one.cpu_us for one in costs) for way, costs in found.items()}
    return (
        f"| {name} | {rate['HTTP']:,.0f} | {cpu['HTTP']:,.0f} | {cpu['TCP']:,.0f} | "
        f"{cpu['bare handler']:,.0f} | {rate['HTTP'] / rate['TCP']:.2f} | "
        f"{rate['HTTP'] / rate['bare handler']:.2f} |"
    )


def stages(count: int, size: int) -> Iterator[str]:
    """Where the time of one request goes, in µs."""
    body = body_of(count, size)
    asked = bodies.decode(body, bodies.SendMessages)
    found = sending.check(asked)
    made = sending.build(found, now_us=1)
    steps: dict[str, Callable[[], Any]] = {
        "read the JSON, look for a key twice": lambda: bodies.decode(body, bodies.SendMessages),
        "ids and headers": lambda: sending.check(asked),
        "build and seal the batch": lambda: sending.build(found, now_us=1),
        "write the JSON of a poll": lambda: polled_json(0, 1, count, memoryview(made)),
    }
    for name, step in steps.items():
        times = []
        for _ in range(200):
            began = time.thread_time()  # of the processor: others may have work for it
            step()
            times.append(time.thread_time() - began)
        yield f"| {name} | {median(times) * 1e6:,.0f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    head = (
        "| requests/s | CPU µs | CPU µs of TCP | of the bare handler | HTTP : TCP | HTTP : bare |"
    )
    print(f"| one request {head}\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for line in rows(Path(folder), options.seconds, options.rounds):
            print(line, flush=True)
    return_large_blocks()  # as the broker: else large results cost page faults, too
    print("\n| stage of 1000 × 1000 B | CPU µs |\n|---|---|")
    for line in stages(*CASES[-1]):
        print(line)


if __name__ == "__main__":
    main()
