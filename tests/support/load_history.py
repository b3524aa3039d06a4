"""What the clients of `official_load` were told, put together, and what must be true of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import official_load
from broker_process import START_S, STOP_S, BrokerProcess
from group_cases import wait_for
from iggy_client import Client, messages
from iggy_wire.primitives import Consumer, PollingStrategy
from official_load import BATCH, GROUP, PARTITIONS, STREAM, TOPIC, label

Place = tuple[int, int]  # partition and offset
Label = tuple[int, int, int]  # producer, number of its batch, place in that


class Load:
    """Processes with official clients against one broker. Their files are named after them."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.folder = folder
        self._broker = broker
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, count: int) -> None:
        """Start so many producers or members, and return when they have begun."""
        paths = [self.folder / f"{role}-{number}" for number in range(count)]
        for number, path in enumerate(paths):
            program = [sys.executable, official_load.__file__, role, str(number)]
            process = subprocess.Popen([*program, self._broker.address, str(path)])
            self._processes[path.name] = process
        wait_for(lambda: all(path.exists() for path in paths), within_s=START_S)

    def check(self) -> None:
        """All of them live: no client has given up."""
        ended = {
            name: one.poll() for name, one in self._processes.items() if one.poll() is not None
        }
        assert not ended

    def stop(self, role: str) -> None:
        """End the processes of a role, each of which must end well."""
        self.check()
        names = [name for name in self._processes if name.startswith(role)]
        for name in names:
            self._processes[name].send_signal(signal.SIGTERM)
        codes = {name: self._processes.pop(name).wait(STOP_S) for name in names}
        assert not any(codes.values()), codes

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """One of them, such as `member-0`."""
        return self._processes[name]

    def end(self) -> None:
        """Kill what still runs, or is frozen."""
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_S)


class History:
    """What the files of a load say, as far as they were taken."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._taken: dict[Path, tuple[int, bytes]] = {}  # by file: so many bytes, and half a line
        self.asked: Counter[tuple[int, int]] = Counter()  # how often, by producer and batch
        self.acknowledged: dict[Place, Label] = {}
        self.read: dict[Place, Label] = {}
        self.unread: set[Place] = set()  # acknowledged, and read by no member yet
        self.reads: defaultdict[str, list[Place]] = defaultdict(list)  # in order, by member
        self.last_read = [-1] * PARTITIONS
        self.kept = [-1] * PARTITIONS  # the group's offsets that members know to be stored
        self.stored = [-1] * PARTITIONS  # the same, as the broker told us last

    def take(self) -> None:
        """Take what was written since. Who writes half a line now is taken next time."""
        self._load.check()
        for path in sorted(self._load.folder.iterdir()):
            position, half = self._taken.get(path, (0, b""))
            with path.open("rb") as file:
                file.seek(position)
                data = file.read()
            *lines, rest = (half + data).split(b"\n")
            self._taken[path] = (position + len(data), rest)
            for line in lines:
                self._note(path.name, *line.decode().split(" "))

    def _note(self, name: str, kind: str, *words: str) -> None:
        producer = int(name.partition("-")[2])
        if kind == "asked":
            self.asked[producer, int(words[0])] += 1
        elif kind == "told":
            number, partition, offset = map(int, words)
            for place in range(BATCH):
                at = (partition, offset + place)
                self._know(self.acknowledged, at, (producer, number, place))
                if at not in self.read:
                    self.unread.add(at)
        elif kind == "read":
            at = partition, offset = int(words[0]), int(words[1])
            self._know(self.read, at, label(words[2]))
            self.unread.discard(at)
            self.reads[name].append(at)
            self.last_read[partition] = max(self.last_read[partition], offset)
        else:
            partition, offset = map(int, words)
            self.kept[partition] = max(self.kept[partition], offset)

    def _know(self, known: dict[Place, Label], at: Place, what: Label) -> None:
        assert known.setdefault(at, what) == what, f"{at} has two payloads"

    def mark(self) -> Counter[str]:
        """How far all clients are, for `has_gone_on`."""
        far = Counter({name: len(read) for name, read in self.reads.items()})
        far["acknowledged"] = len(self.acknowledged)
        return far

    def has_gone_on(self, since: Counter[str], *, messages: int, members: int) -> bool:
        """Whether so many more messages were acknowledged, and each member has read since."""
        self.take()
        now = self.mark()
        names = [f"member-{number}" for number in range(members)]
        return now["acknowledged"] >= since["acknowledged"] + messages and all(
            now[name] > since[name] for name in names
        )

    def is_all_read(self) -> bool:
        """Whether the group has read every message that was acknowledged."""
        self.take()
        return not self.unread

    # -- what must be true ---------------------------------------------------------------------

    def look_at_offsets(self, client: Client) -> None:
        """The group's offsets, now: none has moved back, or beyond what members were handed."""
        self.take()
        kept = list(self.kept)
        stored = [
            client.get_offset(Consumer.group(GROUP), STREAM, TOPIC, partition)
            for partition in range(PARTITIONS)
        ]
        self.take()  # members write down what they read before they commit it
        for partition, found in enumerate(stored):
            offset = -1 if found is None else found.stored_offset
            lowest = max(self.stored[partition], kept[partition])
            assert lowest <= offset <= self.last_read[partition], f"partition {partition}"
            self.stored[partition] = offset

    def compare(self, stored: dict[Place, Label]) -> None:
        """All that clients were told is true of what is stored, and nothing else is stored."""
        for known in (self.acknowledged, self.read):
            wrong = {at: what for at, what in known.items() if stored.get(at) != what}
            assert not wrong, f"lost or changed: {dict(list(wrong.items())[:10])}"
        copies = Counter(
            (producer, number) for producer, number, place in stored.values() if not place
        )
        for batch, count in copies.items():
            assert count <= self.asked[batch], f"batch {batch} was never asked for so often"
        for partition, offset in self.stored_places():
            assert (partition, offset) in self.read, "the group has skipped a message"

    def stored_places(self) -> list[Place]:
        """Everything up to the group's offsets."""
        return [
            (partition, offset)
            for partition, last in enumerate(self.stored)
            for offset in range(last + 1)
        ]


def make_topic(client: Client, durability: str) -> None:
    """The topic and the group that the load is for."""
    client.create_stream(STREAM)
    client.create_topic(STREAM, TOPIC, PARTITIONS, {"durability": durability})
    client.create_group(STREAM, TOPIC, GROUP)


def read_all(client: Client) -> dict[Place, Label]:
    """Everything that is stored. Offsets are dense, and batches are whole."""
    found: dict[Place, Label] = {}
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            strategy = PollingStrategy.offset(offset)
            polled = client.poll(STREAM, TOPIC, partition, strategy=strategy, count=1000)
            if not polled.count:
                break
            for message in messages(polled):
                assert message.offset == offset, "offsets are dense"
                producer, number, place = label(message.payload.decode())
                if place:
                    before = (producer, number, place - 1)
                    assert found[partition, offset - 1] == before, "half a batch"
                found[partition, offset] = (producer, number, place)
                offset += 1
    return found
