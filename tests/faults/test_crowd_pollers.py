"""Members of a group who poll without a pause: the others are served all the same."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from http_client import HttpClient, http_client
from iggy_client.client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from scraped import Scrape
from waiting import wait_until

MEMBERS = 10
PINGS = 1000
SENDS = 300
POLLS = 1000
ROUNDS = 5
PING_S_MAX = 0.5  # of 99 in 100; 50 ms is what a quiet machine must keep
ARRIVAL_S_MAX = 5.0  # 200 ms there
SHARE_MIN = 0.1  # of the sends a second that the same client has alone; a half there

# The released client's own loop: a consumer with no interval set.
POLLER = """
import asyncio, sys
from apache_iggy import AutoCommit, IggyClient, PollingStrategy

async def member(address, name, word):
    client = IggyClient(address)
    await client.connect()
    await client.login_user(name, word)
    consumer = await client.consumer_group(
        "g", "s", "t", polling_strategy=PollingStrategy.Next(), batch_length=10,
        auto_commit=AutoCommit.Disabled(),
    )
    print("joined", flush=True)
    async for message in consumer.iter_messages():
        print(message.payload().decode(), flush=True)

async def main():
    await asyncio.gather(*(member(*sys.argv[1:4]) for _ in range(int(sys.argv[4]))))

asyncio.run(main())
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path, shards=1, monitoring=True, transports=["http"]) as running:
        with running.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", MEMBERS)
            client.create_topic("s", "other", 1)
            client.create_group("s", "t", "g")
        yield running


@pytest.fixture
def pollers(broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts the members, and gives what they print."""
    command = [sys.executable, "-c", POLLER, broker.address, USERNAME, PASSWORD, str(MEMBERS)]
    printed = tmp_path / "pollers"
    started: list[subprocess.Popen[bytes]] = []

    def text() -> str:
        if not started:
            with printed.open("wb") as out:
                started.append(subprocess.Popen(command, stdout=out, stderr=out))
        return printed.read_text()

    yield text
    for process in started:
        process.kill()
        process.wait()


def polled(broker: BrokerProcess) -> float:
    return Scrape(broker).sum("iggy_polls_total")


@dataclass(frozen=True)
class Round:
    """What somebody else sees of a broker beside the pollers."""

    sends_a_second: float
    ping_s: float
    """So long 99 of 100 take at most."""
    http_s: float
    """The same over HTTP."""
    arrival_s: float
    """Of a message that a poller waits for."""

    def is_served(self, alone: float) -> bool:
        """`alone`: sends a second without pollers."""
        return (
            max(self.ping_s, self.http_s) <= PING_S_MAX
            and self.arrival_s <= ARRIVAL_S_MAX
            and self.sends_a_second >= alone * SHARE_MIN
        )


def sends_a_second(client: Client) -> float:
    began_s = time.monotonic()
    for _ in range(SENDS):
        client.send("s", "other", Partitioning.partition(0), [Message(b"other")])
    return SENDS / (time.monotonic() - began_s)


def slowest_pings_s(ping: Callable[[], object], seconds: float) -> float:
    """How long 99 of 100 pings take at most, of all within these seconds and at least PINGS."""
    took: list[float] = []
    end_s = time.monotonic() + seconds
    while (began_s := time.monotonic()) < end_s or len(took) < PINGS:
        ping()
        took.append(time.monotonic() - began_s)
    return sorted(took)[len(took) * 99 // 100]


def measure(
    client: Client, http: HttpClient, printed: Callable[[], str], word: str, seconds: float
) -> Round:
    sends = sends_a_second(client)
    ping_s = slowest_pings_s(client.ping, seconds)
    http_s = slowest_pings_s(lambda: http.ask("GET", "/ping"), seconds)
    began_s = time.monotonic()
    client.send("s", "t", Partitioning.partition(MEMBERS - 1), [Message(word.encode())])
    wait_until(lambda: word in printed(), printed)
    return Round(sends, ping_s, http_s, time.monotonic() - began_s)


@pytest.mark.parametrize(
    "seconds",
    [0, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(800)])],
    ids=["briefly", "a_minute"],
)
def test_tight_pollers_hold_up_nobody(
    broker: BrokerProcess,
    pollers: Callable[[], str],
    seconds: float,
    measured: Callable[[str], None],
) -> None:
    with broker.client() as client, http_client(broker, log_in=False) as http:
        alone = sends_a_second(client)
        wait_until(lambda: pollers().count("joined") == MEMBERS, pollers)
        lines, polls = len(broker.records()), polled(broker)

        # Who has to wait for pollers does so in every round; who waits for other work on this
        # machine does so in some.
        for number in range(ROUNDS):
            found = measure(client, http, pollers, f"at last {number}", seconds)
            if found.is_served(alone):
                break
        wait_until(lambda: polled(broker) >= polls + POLLS, "the members poll")
        measured(
            f"{MEMBERS} members that poll without a pause, {polled(broker) - polls:.0f} times: "
            f"99 of 100 pings take {found.ping_s * 1000:.1f} ms, over HTTP "
            f"{found.http_s * 1000:.1f} ms, a message {found.arrival_s * 1000:.0f} ms, another "
            f"client sends {found.sends_a_second:.0f} times a second, {alone:.0f} alone"
        )
        assert found.is_served(alone), f"{found} in the last of {number + 1}, {alone:.0f} alone"
        assert len(broker.records()) <= lines + MEMBERS, "the log grows with polls"
