"""A fuzzer on the wire: whatever arrives is answered or ends its connection, and nothing else."""

from __future__ import annotations

import secrets
import selectors
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from fuzz_frames import Frames, Sender
from iggy_client.client import Client
from iggy_wire.batch import Message
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.primitives import Partitioning, PollingStrategy
from iggy_wire.requests import LoginWithToken
from process_memory import MIB, proportional_bytes
from raw_frames import RawClient

CONNECTIONS = 8
STUCK_S = 30.0  # nothing may stay unanswered for longer
RESET_FRAMES = 50_000  # what was created goes then, so that only a leak can grow
GROWTH_BYTES_MAX = 24 * MIB  # of all processes together, after the warm-up
WANTED_BYTES = 1 << 16
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


class Line:
    """One connection of the fuzzer: a burst out, its answers in, then the next."""

    def __init__(self, fuzzer: Fuzzer) -> None:
        self.fuzzer = fuzzer
        self.open()

    def open(self) -> None:
        """A new connection; every other one is logged in."""
        fuzzer = self.fuzzer
        fuzzer.opened += 1
        raw = RawClient(fuzzer.port)
        self.sender = Sender()
        self.sender.client = raw.client
        if fuzzer.opened % 8:
            raw.exchange(Operation.REGISTER, fuzzer.login)
        self.socket = raw.socket
        self.socket.setblocking(False)
        self.data = b""
        self.due = 0
        self.arrived = bytearray()
        fuzzer.selector.register(self.socket, _BOTH, self)

    def turn(self, events: int) -> None:
        """Do what the socket is ready for."""
        try:
            if events & selectors.EVENT_READ:
                self.read()
            if events & selectors.EVENT_WRITE and self.data:
                self.data = self.data[self.socket.send(self.data) :]
        except ConnectionError:
            self.close()
            return
        if not self.data and not self.due:
            self.next()
        elif not self.data and self.due < 0:
            self.close()  # after bytes that do not end where they say, there is nothing to wait for

    def next(self) -> None:
        """Begin a burst."""
        if self.fuzzer.frames >= self.fuzzer.frames_wanted:
            self.fuzzer.selector.modify(self.socket, selectors.EVENT_READ, self)
            return
        self.data, self.due = self.fuzzer.source.burst(self.sender)
        self.fuzzer.frames += abs(self.due)

    def read(self) -> None:
        """Count the answers."""
        got = self.socket.recv(WANTED_BYTES)
        if not got:
            raise ConnectionResetError
        self.fuzzer.moved_s = time.monotonic()
        arrived = self.arrived
        arrived += got
        at, length = 0, len(arrived)
        while length - at >= 256:
            size = int.from_bytes(arrived[at + 48 : at + 52], "little")
            assert size >= 256, "an answer says how long it is"
            if length - at < size:
                break
            at += size
            self.due -= self.due > 0
        del arrived[:at]

    def close(self) -> None:
        """End it, and begin another."""
        if self.due > 0:
            self.fuzzer.closed_by_broker += 1
        self.fuzzer.selector.unregister(self.socket)
        self.socket.close()
        self.open()


class Fuzzer:
    """Several connections on one thread, and what they have seen."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.port = broker.tcp_port
        with broker.client() as client:
            self.token = client.create_access_token("of-the-fuzzer")
        self.login = LoginWithToken(P11.version, "fuzz", "1", self.token).encode()
        self.source = Frames(seed, self.token)
        self.selector = selectors.DefaultSelector()
        self.opened = self.closed_by_broker = self.frames = self.frames_wanted = 0
        self.moved_s = time.monotonic()
        self.lines = [Line(self) for _ in range(CONNECTIONS)]

    def run(self, frames: int) -> None:
        """Send so many more, and see all of them answered."""
        self.frames_wanted = self.frames + frames
        for line in self.lines:
            self.selector.modify(line.socket, _BOTH, line)
        self.moved_s = time.monotonic()
        while self.frames < self.frames_wanted or any(line.due for line in self.lines):
            for key, events in self.selector.select(1.0):
                key.data.turn(events)
            stuck_s = time.monotonic() - self.moved_s
            due = [line.due for line in self.lines]
            assert stuck_s < STUCK_S, f"after {self.frames} frames, no answer to {due}"

    def close(self) -> None:
        for line in self.lines:
            line.socket.close()
        self.selector.close()


def reset(broker: BrokerProcess, token: str) -> None:
    """Delete what the fuzzer made."""
    with Client(broker.address) as client:
        client.login_with_token(token)
        for stream in client.get_streams():
            client.delete_stream(stream.id)
        for user in client.get_users():
            if user.id:
                client.delete_user(user.id)


def assert_serving(broker: BrokerProcess, token: str, shards: list[int]) -> None:
    assert broker.is_running and broker.shard_pids() == shards, broker.text()[-2000:]
    with Client(broker.address) as client:
        client.login_with_token(token)
        client.create_stream("alive")
        client.create_topic("alive", "t", 4)
        for partition in range(4):
            client.send("alive", "t", Partitioning.partition(partition), [Message(b"alive")])
            first = PollingStrategy.first()
            assert client.poll("alive", "t", partition, strategy=first, count=1).count == 1
        client.delete_stream("alive")


def assert_quiet(broker: BrokerProcess) -> None:
    """Nothing in the log says that a bug was met."""
    assert "Traceback" not in broker.text()
    loud = [one for one in broker.records() if one.get("level") in ("error", "critical")]
    assert not loud


def fuzz(broker: BrokerProcess, seed: int, *, warm_up: int, frames: int) -> str:
    """The whole story; what was measured."""
    shards = broker.shard_pids()
    fuzzer = Fuzzer(broker, seed)
    everyone = [broker.pid, *shards]
    began_s = time.monotonic()
    try:
        fuzzer.run(warm_up)
        reset(broker, fuzzer.token)
        before = highest = proportional_bytes(everyone)
        while fuzzer.frames < warm_up + frames:
            fuzzer.run(min(RESET_FRAMES, frames))
            reset(broker, fuzzer.token)
            highest = max(highest, proportional_bytes(everyone))
    finally:
        fuzzer.close()
    assert_serving(broker, fuzzer.token, shards)
    assert_quiet(broker)
    after = proportional_bytes(everyone)
    figures = (
        f"{fuzzer.frames} frames over {fuzzer.opened} connections in "
        f"{time.monotonic() - began_s:.0f} s, {fuzzer.closed_by_broker} closed by the broker; PSS "
        f"{before / MIB:.1f} MiB after the first {warm_up}, at most {highest / MIB:.1f}, "
        f"{after / MIB:.1f} at the end"
    )
    assert after - before <= GROWTH_BYTES_MAX, figures
    return figures


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_sent_is_answered(
    tmp_path: Path, seed: int, measured: Callable[[str], None]
) -> None:
    with running_broker(tmp_path, shards=2) as broker:
        measured(fuzz(broker, seed, warm_up=10_000, frames=10_000))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_million_frames(tmp_path: Path, measured: Callable[[str], None]) -> None:
    with running_broker(tmp_path, shards=2) as broker:
        seed = secrets.randbelow(10_000)
        measured(f"seed {seed}")  # also when it fails
        measured(fuzz(broker, seed, warm_up=100_000, frames=900_000))
