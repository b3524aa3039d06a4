"""Real brokers whose older messages are only in an archive, read by the official client."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoCommit, Consumer, IggyClient, PollingStrategy, SendMessage

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client.client import ClientError
from iggy_spark.connections import Connection
from iggy_spark.fetch import RangeFetch
from iggy_spark.offsets import OffsetRange
from iggy_spark.options import parse
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy as Strategy
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store
from scraped import Scrape
from stored import logs, partition_folder
from waiting import wait_until

NAME = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
PARTITIONS = 2
SEGMENT_BYTES = 1 << 20
MESSAGE_BYTES = 20_000
BATCH = 10
BATCHES = 130  # so that the segment that is written is less than a tenth of them
CACHE_BYTES = 4 << 20
SHARDS = 2
WITHIN_S = 60.0
OPTIONS = {"segment_size": SEGMENT_BYTES, "max_topic_size": SEGMENT_BYTES}
SETTINGS = {
    f"{NAME}ENABLED": "true",
    f"{NAME}CONTINUOUS": "true",
    f"{NAME}INTERVAL": "100ms",
    f"{NAME}READ_CACHE": f"{CACHE_BYTES} B",  # a third of what is read
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms",
}


def text(topic: str, partition: int, offset: int) -> str:
    """What a message says, which no other one does."""
    return f"{topic}/{partition}/{offset}/".ljust(offset * 977 % MESSAGE_BYTES + 100, "x")


@dataclass
class Scene:
    """A broker with an archive, and what was sent."""

    broker: BrokerProcess
    folder: Path | None
    store: ObjectStore | None
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, work: Callable[[IggyClient], Awaitable[None]]) -> None:
        async def on_client() -> None:
            client = IggyClient(self.broker.address)
            await client.connect()
            await client.login_user(USERNAME, PASSWORD)
            await work(client)

        asyncio.run(asyncio.wait_for(on_client(), WITHIN_S))

    def fill(self, topic: str, number: int, *, batches: int = BATCHES) -> None:
        """Send, and wait until nine tenths are only in the archive."""

        async def send(client: IggyClient) -> None:
            for batch in range(batches):
                for partition in range(PARTITIONS):
                    offsets = range(batch * BATCH, (batch + 1) * BATCH)
                    new = [SendMessage(text(topic, partition, offset)) for offset in offsets]
                    await client.send_messages("s", topic, partition, new)

        self.run(send)
        self.counts[topic] = BATCH * batches
        for partition in range(PARTITIONS):
            folder = partition_folder(self.broker, topic=number, partition=partition)
            wait_until(lambda folder=folder: len(logs(folder)) == 1, "older ones went", WITHIN_S)

    def hide_archive(self) -> None:
        if self.folder is not None:
            self.folder.rename(self.folder.with_name("hidden"))
        elif self.store is not None:
            self.store.kill()

    def show_archive(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)  # the broker may have begun another
            self.folder.with_name("hidden").rename(self.folder)
        elif self.store is not None:
            self.store.start()

    def first_on_disk(self, number: int, partition: int) -> int:
        folder = partition_folder(self.broker, topic=number, partition=partition)
        return int(logs(folder)[0].stem)


def where_of(kind: str, folder: Path, store: ObjectStore) -> dict[str, str]:
    if kind == "folder":
        return {f"{NAME}DISK_PATH": str(folder / "archive")}
    return {
        f"{NAME}KIND": "s3",
        f"{NAME}S3_BUCKET": store.common_bucket,
        f"{NAME}S3_KEY_PREFIX": "cold",
        f"{NAME}S3_ENDPOINT": store.endpoint,
        f"{NAME}S3_ACCESS_KEY_ID": ACCESS_KEY,
        f"{NAME}S3_SECRET_ACCESS_KEY": SECRET_KEY,
    }


@pytest.fixture(scope="module")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("own-store")) as running:
        yield running


@pytest.fixture(scope="module", params=["folder", "bucket"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A topic of each kind of end, filled: `t`, and `p` to be purged, `d` to be made anew."""
    folder = tmp_path_factory.mktemp("cold")
    is_folder = request.param == "folder"
    store = None if is_folder else request.getfixturevalue("own_store")
    settings = SETTINGS | where_of(request.param, folder, store)
    broker = BrokerProcess(folder, shards=SHARDS, settings=settings, monitoring=True)
    try:
        broker.start()
        with broker.client() as client:
            client.create_stream("s")
            for topic in ("p", "d", "t"):  # partitions of the last one are on both shards
                client.create_topic("s", topic, PARTITIONS, OPTIONS)
        scene = Scene(broker, folder / "archive" if is_folder else None, store)
        scene.fill("t", 2)
        yield scene
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


async def read_all(
    client: IggyClient, topic: str, partition: int, *, start: int = 0, count: int = 97
) -> list[str]:
    found: list[str] = []
    while True:
        got = await poll(
            client, topic, partition, PollingStrategy.Offset(start + len(found)), count
        )
        assert [one.offset() for one in got] == [start + len(found) + n for n in range(len(got))]
        if not got:
            return found
        found += [one.payload().decode() for one in got]


async def poll(
    client: IggyClient, topic: str, partition: int, strategy: PollingStrategy, count: int
) -> list[Any]:
    return await client.poll_messages(
        "s",
        topic,
        consumer=Consumer.Single("reader"),
        polling_strategy=strategy,
        count=count,
        auto_commit=False,
        partition_id=partition,
    )


def expected(topic: str, partition: int, count: int, start: int = 0) -> list[str]:
    return [text(topic, partition, offset) for offset in range(start, count)]


def test_all_is_read_in_order_from_the_start(scene: Scene) -> None:
    count = scene.counts["t"]

    async def read(client: IggyClient) -> None:
        for partition in range(PARTITIONS):
            assert await read_all(client, "t", partition) == expected("t", partition, count)
            half = scene.first_on_disk(2, partition) // 2
            got = await read_all(client, "t", partition, start=half, count=5000)
            assert got == expected("t", partition, count, half)

    cold_bytes = 0
    for partition in range(PARTITIONS):
        first = scene.first_on_disk(2, partition)
        assert first >= 0.9 * count
        cold_bytes += sum(map(len, expected("t", partition, first)))
    before = Scrape(scene.broker)
    scene.run(read)
    after = Scrape(scene.broker)
    assert after.sum("iggy_archive_reads_total") > before.sum("iggy_archive_reads_total")
    name = "iggy_archive_reads_bytes_total"
    assert after.sum(name) - before.sum(name) > cold_bytes, "blocks went and came again"
    assert after.sum("iggy_archive_reads_cache_bytes") <= SHARDS * CACHE_BYTES


def test_polls_of_both_shards_in_turn_are_forwarded(scene: Scene) -> None:
    """Then the connection stays where it is."""

    async def read(client: IggyClient) -> None:
        for start in range(0, 100, 10):
            for partition in range(PARTITIONS):
                got = await poll(client, "t", partition, PollingStrategy.Offset(start), 10)
                wanted = expected("t", partition, start + 10, start)
                assert [one.payload().decode() for one in got] == wanted

    before = Scrape(scene.broker)
    scene.run(read)
    assert (
        Scrape(scene.broker).sum("iggy_forwarded_total") >= before.sum("iggy_forwarded_total") + 9
    )


def test_first_time_and_last(scene: Scene) -> None:
    async def read(client: IggyClient) -> None:
        for partition in range(PARTITIONS):
            got = await poll(client, "t", partition, PollingStrategy.First(), 25)
            assert [one.offset() for one in got] == list(range(25))
            third = got[20]
            at = PollingStrategy.Timestamp(third.timestamp())
            (found,) = await poll(client, "t", partition, at, 1)
            assert found.offset() == 20, "batches of ten have one time"
            count = scene.counts["t"] - scene.first_on_disk(2, partition) + 5
            got = await poll(client, "t", partition, PollingStrategy.Last(), count)
            assert len(got) == count
            assert got[-1].offset() == scene.counts["t"] - 1

    scene.run(read)


def test_a_group_reads_all(scene: Scene) -> None:
    async def read(client: IggyClient) -> None:
        consumer = await client.consumer_group(
            "g",
            "s",
            "t",
            polling_strategy=PollingStrategy.Next(),
            batch_length=50,
            auto_commit=AutoCommit.Interval(timedelta(milliseconds=50)),
            poll_interval=timedelta(milliseconds=1),
        )
        found: list[str] = []
        over = asyncio.Event()

        async def take(message: Any) -> None:
            found.append(message.payload().decode())
            if len(found) == PARTITIONS * scene.counts["t"]:
                over.set()

        await consumer.consume_messages(take, over)
        for partition in range(PARTITIONS):
            ours = [one for one in found if one.startswith(f"t/{partition}/")]
            assert ours == expected("t", partition, scene.counts["t"])
        await client.delete_consumer_group("s", "t", "g")

    scene.run(read)


def test_a_task_of_spark_gets_its_range(scene: Scene) -> None:
    given = {"servers": scene.broker.address, "username": USERNAME, "password": PASSWORD}
    options = parse({**given, "stream": "s", "topic": "t"}, mode="batch")
    state = Connection(options).topic_state()
    count = scene.counts["t"]
    assert state.ends == dict.fromkeys(range(PARTITIONS), count)
    for partition in range(PARTITIONS):
        wanted = OffsetRange(str(state.incarnation), partition, 0, count)
        payloads = b"".join(bytes(columns.payloads) for columns in RangeFetch(options, wanted))
        assert payloads.decode() == "".join(expected("t", partition, count))


def test_while_the_archive_is_away_nothing_is_skipped(scene: Scene) -> None:
    """A client is told to try again later. The official one does so by itself, and a broker that
    was restarted gives the same.
    """
    scene.broker.kill()  # with all that it has in memory
    scene.broker.start()
    scene.hide_archive()

    async def wait(client: IggyClient) -> None:
        waiting = asyncio.ensure_future(poll(client, "t", 0, PollingStrategy.First(), 10))
        await asyncio.to_thread(is_refused)
        assert not waiting.done()
        await asyncio.to_thread(scene.show_archive)
        assert [one.offset() for one in await waiting] == list(range(10))
        assert await read_all(client, "t", 0) == expected("t", 0, scene.counts["t"])

    def is_refused() -> None:
        with scene.broker.client() as client:
            for strategy in (Strategy.first(), Strategy.next(), Strategy.offset(3)):
                with pytest.raises(ClientError) as refused:
                    client.poll("s", "t", 0, strategy=strategy, count=10)
                assert refused.value.code == ErrorCode.TRANSIENT_NOT_ACCEPTED
            first = scene.first_on_disk(2, 0)
            assert client.poll("s", "t", 0, strategy=Strategy.offset(first), count=1).count == 1
        assert Scrape(scene.broker).sum("iggy_archive_reads_failures_total") >= 1
        told = [one for one in scene.broker.records() if one["event"] == "archive_unreadable"]
        assert len(told) == 1, "once a minute"

    scene.run(wait)


def test_what_was_emptied_or_deleted_is_not_given_again(scene: Scene) -> None:
    scene.fill("p", 0, batches=20)
    scene.fill("d", 1, batches=20)

    async def end(client: IggyClient) -> None:
        for topic in ("p", "d"):
            assert await read_all(client, topic, 0) == expected(topic, 0, scene.counts[topic])
        await client.purge_topic("s", "p")
        await client.delete_topic("s", "d")

    scene.run(end)
    with scene.broker.client() as client:
        client.create_topic("s", "d", PARTITIONS, OPTIONS)

    async def look(client: IggyClient) -> None:
        for topic in ("p", "d"):
            for strategy in (PollingStrategy.First(), PollingStrategy.Offset(3)):
                assert await poll(client, topic, 0, strategy, 10) == []

    scene.run(look)
