"""What a lost volume takes with a continuous archive: by the broker's own figures, under load.

Nothing here depends on how fast the machine is. What came before the age that the broker told is
there, whatever that age was; and while the store is well, that age stays below what the interval
and the broker's own figure of a copy make of it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from archive_settings import CONTINUOUS, NAME, of_bucket
from broker_process import BrokerProcess
from iggy_broker.archive.bucket import BucketPlace
from iggy_client.client import Client, ClientError
from object_store import ACCESS_KEY, SECRET_KEY, running_object_store
from restored import restore
from scraped import Scrape
from stored import read_messages, send
from waiting import wait_until

INTERVAL_S = 1.0
LATE_S = INTERVAL_S / 5  # of timers: what a pass and the pause behind it are told without
KEPT_UP = 5  # intervals
TOPICS = {
    "relaxed": {},
    "balanced": {"messages_required_to_save": 10},  # a sync runs nearly always
    "strict": {"durability": "persisted"},
}
PARTITIONS = 8
SEGMENT_BYTES = 1 << 20  # so that some are sealed meanwhile
PAYLOAD_BYTES = 8000
PAUSE_S = 0.002
SAFE_MIN = 200
WITHIN_S = 120.0

Where = tuple[str, int, int]


@dataclass
class Load:
    """One producer for each topic; what was acknowledged, and when the answer was there."""

    acknowledged: dict[Where, tuple[float, bytes]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def on(self, broker: BrokerProcess) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=(broker, one)) for one in TOPICS]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def _run(self, broker: BrokerProcess, topic: str) -> None:
        try:
            with broker.client() as client:
                for number in itertools.count():
                    if self.over.wait(PAUSE_S):
                        return
                    self._send(client, topic, number)
        except (OSError, ClientError):
            return  # it was killed

    def _send(self, client: Client, topic: str, number: int) -> None:
        partition = number % PARTITIONS
        payload = f"{topic}/{number}/".encode().ljust(PAYLOAD_BYTES, b".")
        offset = send(client, "s", topic, payload, partition=partition)
        self.acknowledged[topic, partition, offset] = time.monotonic(), payload

    def before(self, moment_s: float) -> dict[Where, bytes]:
        """What was acknowledged by then."""
        known = dict(self.acknowledged)
        return {where: payload for where, (at_s, payload) in known.items() if at_s < moment_s}


@dataclass(frozen=True)
class Figures:
    """What the broker tells, in seconds; of the shard that is worst."""

    asked_s: float
    behind_s: float
    pass_s: float


def figures(broker: BrokerProcess) -> Figures:
    asked_s = time.monotonic()  # before: what is told then holds all the more
    found = Scrape(broker)
    assert found.sum("iggy_archiver_failing") == 0
    behind_s, pass_s = (
        max(found.series(f"iggy_archiver_{name}_seconds").values()) for name in ("behind", "pass")
    )
    return Figures(asked_s, behind_s, pass_s)


def keeps_up(seen: list[Figures]) -> bool:
    """Whether the last so many intervals were as they are to be, with copies that long."""
    while seen[-1].asked_s - seen[0].asked_s > KEPT_UP * INTERVAL_S:
        del seen[0]
    pass_s = max(one.pass_s for one in seen)
    limit_s = max(INTERVAL_S, pass_s + INTERVAL_S / 10) + pass_s + LATE_S
    if max(one.behind_s for one in seen) > limit_s:
        del seen[:-1]
    return seen[-1].asked_s - seen[0].asked_s > (KEPT_UP - 1) * INTERVAL_S


def read_back(broker: BrokerProcess) -> dict[Where, bytes]:
    with broker.client() as client:
        return {
            (topic, partition, message.offset): message.payload
            for topic in TOPICS
            for partition in range(PARTITIONS)
            for message in read_messages(client, "s", topic, partition)
        }


@pytest.mark.timeout(400)
def test_a_lost_volume_takes_no_more_than_the_broker_told(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(running_object_store(tmp_path / "store"))
        place = BucketPlace(
            store.common_bucket, "lost/", endpoint=store.endpoint,
            access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY,
        )  # fmt: skip
        settings = CONTINUOUS | of_bucket(place) | {f"{NAME}INTERVAL": f"{INTERVAL_S:.0f} s"}
        broker = BrokerProcess(tmp_path, settings=settings, monitoring=True)
        stack.callback(broker.end)
        with broker.start().client() as client:
            client.create_stream("s")
            for topic, options in TOPICS.items():
                shape = {"segment_size": SEGMENT_BYTES, **options}
                client.create_topic("s", topic, PARTITIONS, shape)
        load, seen = Load(), [figures(broker)]

        def is_well() -> bool:
            seen.append(figures(broker))
            safe = load.before(seen[-1].asked_s - seen[-1].behind_s)
            return keeps_up(seen) and len(safe) >= SAFE_MIN

        with load.on(broker):
            wait_until(is_well, lambda: f"an archive that keeps up: {seen}", WITHIN_S)
            last = figures(broker)
            broker.kill()
            killed_s = time.monotonic()

        restore(broker)
        broker.start()
        found = read_back(broker)
        assert broker.stop() == 0, broker.text()
    safe = load.before(last.asked_s - last.behind_s)
    missing = [where for where in safe if where not in found]
    assert not missing, f"{len(missing)} of {len(safe)} are lost: {missing[:3]}"
    sent = load.before(killed_s + 1)
    wrong = [where for where in found.keys() & sent.keys() if found[where] != sent[where]]
    assert not wrong
    lost_s = [killed_s - load.acknowledged[where][0] for where in sent.keys() - found.keys()]
    measured(
        f"{len(sent) - len(lost_s):,} of {len(sent):,} messages came back, the oldest that did "
        f"not was {max(lost_s, default=0):.2f} s old; told were {last.behind_s:.2f} s, with an "
        f"interval of {INTERVAL_S} s and a copy that takes {last.pass_s:.2f} s"
    )
