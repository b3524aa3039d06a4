"""One broker and one Spark for all tests of this folder: both take long to start."""

from __future__ import annotations

import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mariadb
from archived_shop import ArchivedShop, running_shop
from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import Client
from iggy_spark import connections, options, readers, session
from iggy_spark.offsets import Offsets
from iggy_wire.batch import Message
from iggy_wire.permissions import Permissions, StreamPermissions, TopicPermissions
from iggy_wire.primitives import Consumer, Partitioning
from lakes import BucketLake, FolderLake, Lake
from object_store import ObjectStore, running_object_store
from postgres import Postgres, running_postgres
from postgres_sources import Shop, shop_in
from remote_checkpoint import RemoteCheckpoint

_numbers = itertools.count()
HERE = Path(__file__).parent
DEDUPLICATION = {  # in topics of this name
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_TOPICS": "*/once",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": "0",
}
TIMEOUT_S = 300.0  # a broker, a Spark and a store start in whichever test comes first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(folder, settings=DEDUPLICATION) as process:
        yield process


@pytest.fixture(scope="session")
def client(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as connected:
        yield connected
    connections.close_all()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logs = tmp_path_factory.mktemp("spark-logs")
    conf = mariadb.driver_settings()
    with session.running("tests", cores=2, memory="1g", logs=logs, conf=conf) as running:
        yield running


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="session")
def in_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchivedShop]:
    with running_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop
    connections.close_all()


@pytest.fixture(scope="session")
def in_bucket(
    tmp_path_factory: pytest.TempPathFactory, store: ObjectStore
) -> Iterator[ArchivedShop]:
    with running_shop(tmp_path_factory.mktemp("shop"), store) as shop:
        yield shop
    connections.close_all()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres(fsync="off", wal_level="logical", max_replication_slots="50") as running:
        yield running


@pytest.fixture
def shop(postgres: Postgres) -> Iterator[Shop]:
    with shop_in(postgres) as made:
        yield made


@pytest.fixture
def bucket(store: ObjectStore, tmp_path: Path) -> BucketLake:
    return BucketLake(store, tmp_path)


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A target of the files sink: all that it promises holds in both."""
    if request.param == "folder":
        return FolderLake(tmp_path)
    found: BucketLake = request.getfixturevalue("bucket")
    return found


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on this is another machine: it has none of the files that were there."""

    def move() -> None:
        folder = tmp_path / f"machine-{next(_numbers)}"
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))

    move()
    return move


@pytest.fixture
def remote(store: ObjectStore, elsewhere: object) -> RemoteCheckpoint:
    return RemoteCheckpoint(store)


@dataclass(frozen=True)
class Topic:
    """A topic of a test's own, and how to fill it."""

    client: Client
    address: str
    stream: str
    name: str

    def options(self, **more: str) -> dict[str, str]:
        login = {"servers": self.address, "username": USERNAME, "password": PASSWORD}
        return {**login, "stream": self.stream, "topic": self.name, **more}

    def send(self, partition: int, payloads: Sequence[bytes], *, batch: int = 100) -> None:
        for at in range(0, len(payloads), batch):
            group = payloads[at : at + batch]
            messages = [
                Message(payload, id=at + number + 1) for number, payload in enumerate(group)
            ]
            self.client.send(self.stream, self.name, Partitioning.partition(partition), messages)

    def stored(self, group: str, partition: int) -> int | None:
        """The last offset that a consumer group is done with."""
        whose = Consumer.group(group)
        found = self.client.get_offset(whose, self.stream, self.name, partition)
        return None if found is None else found.stored_offset

    def members(self, group: str) -> int:
        found = self.client.get_group(self.stream, self.name, group)
        return 0 if found is None else found.group.members_count

    def user(self, **rights: bool) -> dict[str, str]:
        """Login options of a new user who has these rights on this topic and no others."""
        stream = self.client.get_stream(self.stream)
        found = self.client.get_topic(self.stream, self.name)
        assert stream is not None
        assert found is not None
        only = TopicPermissions(found.topic.id, **rights)
        permissions = Permissions(streams=(StreamPermissions(stream.stream.id, topics=(only,)),))
        login = {"username": f"user-{next(_numbers)}", "password": "only-that"}
        self.client.create_user(**login, permissions=permissions)
        return login

    def at(self, *positions: int) -> dict[str, Any]:
        """Offsets of the topic's present life, as Spark hands them over."""
        found = connections.Connection(options.parse(self.options(), mode="stream")).topic_state()
        ends = dict(enumerate(positions))
        return Offsets(found.name, str(found.incarnation), ends).to_json()

    def recreate(self, partitions: int) -> None:
        self.client.delete_topic(self.stream, self.name)
        self.client.create_topic(self.stream, self.name, partitions)


@pytest.fixture
def topic(broker: BrokerProcess, client: Client, request: pytest.FixtureRequest) -> Topic:
    """A fresh topic of two partitions, or as many as an indirect parameter says."""
    stream = f"tests/{next(_numbers)}"
    client.create_stream(stream)
    client.create_topic(stream, "orders", getattr(request, "param", 2))
    return Topic(client, broker.address, stream, "orders")


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


Source = Callable[..., readers.IggyStreamReader]


@pytest.fixture
def source(topic: Topic) -> Iterator[Source]:
    """Makes readers of group g that are stopped at the end."""
    with ExitStack() as stack:

        def make(**more: str) -> readers.IggyStreamReader:
            given = {"startingOffsets": "earliest", "consumerGroup": "g", "pollIntervalMs": "0"}
            given |= {"retryTimeoutMs": "30s", **more}
            made = readers.IggyStreamReader(options.parse(topic.options(**given), mode="stream"))
            stack.callback(made.stop)
            return made

        yield make
