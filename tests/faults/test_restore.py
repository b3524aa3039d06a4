"""A broker is killed under load and its volume is lost, again and again: what the archive has comes
back byte for byte, lazily and whole, and the official client goes on.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache_iggy import (
    AutoLogin,
    IggyClient,
    PollingStrategy,
    SendMessage,
    TcpConfig,
)
from apache_iggy import (
    Consumer as OfficialConsumer,
)

from archive_content import objects_of, payloads_of
from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.state_objects import StoredOffsets
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.restore.survey import read_metadata, survey
from iggy_client.client import Client, ClientError
from iggy_wire.archive import offsets_key
from iggy_wire.batch import messages
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import Consumer
from iggy_wire.primitives import PollingStrategy as Strategy
from object_store import ACCESS_KEY, SECRET_KEY, running_object_store
from restored import ARCHIVER, restore, summary
from stored import send
from waiting import wait_until

SETTINGS = {
    f"{ARCHIVER}ENABLED": "true",
    f"{ARCHIVER}CONTINUOUS": "true",
    f"{ARCHIVER}INTERVAL": "500ms",
}
PARTITIONS = 3
SEGMENT_BYTES = 1 << 20
WITHIN_S = 90.0
PAUSE_S = 0.005
READER = Consumer.plain(7)
GROUP = Consumer.group("g")
"""Members are not wanted: what it has stored is what counts."""


class Load:
    """Sends to all partitions, and stores offsets of what was acknowledged."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._chance = random.Random(1)
        self.acknowledged: dict[tuple[int, int], bytes] = {}

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._broker.client(timeout_s=10) as client:
                while not self._over.wait(PAUSE_S):
                    self._send(client)
        except (OSError, ClientError):
            return  # it was killed

    def _send(self, client: Client) -> None:
        partition = self._chance.randrange(PARTITIONS)
        payload = self._chance.randbytes(self._chance.choice((100, 20_000, 200_000)))
        offset = send(client, "s", "t", payload, partition=partition)
        self.acknowledged[partition, offset] = payload
        if offset % 5 == 0:
            client.store_offset(READER, "s", "t", partition, offset)


def had(store: ArchiveStore) -> dict[tuple[int, int], bytes]:
    """What is in an archive, by partition and offset; each manifest must name what is there."""
    objects = objects_of(store)
    return {
        (partition, offset): payload
        for partition in range(PARTITIONS)
        for offset, payload in payloads_of(objects, partition).items()
    }


def has(store: ArchiveStore, sent: dict[tuple[int, int], bytes]) -> bool:
    """Whether its manifests say so; it changes meanwhile."""
    try:
        held = survey(store, is_all=True, fences=read_fences(store))
    except ArchiveError:
        return False
    spans = {
        (one.partition.partition_id, offset)
        for one in held
        for segment in one.listing.segments
        for offset in range(segment.first_offset, segment.next_offset)
    }
    return sent.keys() <= spans


def stored(store: ArchiveStore, partition: int) -> int:
    """The reader's offset in the archive; -1: none."""
    for generation in read_fences(store).generations():
        key = offsets_key(f"streams/0/topics/0/partitions/{partition}", generation)
        try:
            found = StoredOffsets.decode(store.read(key, 1 << 20, 0), key)
            break
        except FileNotFoundError:
            continue
    else:
        return -1
    return found.consumers.get(READER.id.value, -1)  # type: ignore[arg-type]


@pytest.fixture(params=["folder", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ArchiveStore, dict[str, str], str]]:
    """A store, the settings for it, and how it is named on the command line."""
    if request.param == "folder":
        folder = tmp_path / "archive"
        yield FolderStore(folder), {f"{ARCHIVER}DISK_PATH": str(folder)}, str(folder)
        return
    with running_object_store(tmp_path / "store") as running:
        where = BucketPlace(
            running.common_bucket, "kept/", endpoint=running.endpoint,
            access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY,
        )  # fmt: skip
        settings = {
            f"{ARCHIVER}KIND": "s3",
            f"{ARCHIVER}S3_BUCKET": where.bucket,
            f"{ARCHIVER}S3_KEY_PREFIX": "kept",
            f"{ARCHIVER}S3_ENDPOINT": where.endpoint,
            f"{ARCHIVER}S3_ACCESS_KEY_ID": ACCESS_KEY,
            f"{ARCHIVER}S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        yield BucketStore(where), settings, f"s3://{where.bucket}/kept"


def make(broker: BrokerProcess) -> str:
    """Stream, topic, group, and a user with a token: the token."""
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", PARTITIONS, {"segment_size": SEGMENT_BYTES})
        client.create_group("s", "t", "g")
        rights = Permissions(GlobalPermissions(read_streams=True))
        client.create_user("ann", "secret of ann", permissions=rights)
    with Client.connect(broker.address, "ann", "secret of ann") as ann:
        return ann.create_access_token("token", 0)


def kill_under_load(
    broker: BrokerProcess, store: ArchiveStore, measured: Callable[[str], None]
) -> dict[tuple[int, int], bytes]:
    """Lose a running broker; what the archive has then, with all that was sent a while before."""
    with Load(broker) as load:
        wait_until(lambda: len(load.acknowledged) > 100, "messages", WITHIN_S)
        before, began_s = dict(load.acknowledged), time.monotonic()
        wait_until(lambda: has(store, before), "all of that is in the archive", WITHIN_S)
        measured(f"in the archive after {time.monotonic() - began_s:.2f} s")
        shards = broker.shard_pids()
        broker.kill()
    wait_until(lambda: not any(map(is_alive, shards)), "the end of its shards", WITHIN_S)
    found = had(store)
    assert before.items() <= found.items()
    sent = {at: load.acknowledged[at] for at in found.keys() & load.acknowledged.keys()}
    assert sent.items() <= found.items(), "what is there is what was sent"
    return found


def is_alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def check(
    broker: BrokerProcess, token: str, expected: dict[tuple[int, int], bytes], kept: list[int]
) -> None:
    with broker.client() as client:
        for partition in range(PARTITIONS):
            messages = of_partition(expected, partition)
            assert read(client, partition) == messages
            offset = client.get_offset(READER, "s", "t", partition)
            kept[partition] = min(kept[partition], max(messages)[1])
            assert (offset.stored_offset if offset else -1) == kept[partition]
        topic = client.get_topic("s", "t")
        assert topic is not None
        assert [group.name for group in client.get_groups("s", "t")] == ["g"]
        assert [user.name for user in client.get_users()] == ["iggy", "ann"]
    with Client(broker.address) as ann:
        ann.login_with_token(token)
        assert [stream.name for stream in ann.get_streams()] == ["s"]
        with pytest.raises(ClientError):
            ann.get_users()


def read(client: Client, partition: int) -> dict[tuple[int, int], bytes]:
    """All messages of a partition. A segment that was sealed and not yet copied is missing."""
    found: dict[tuple[int, int], bytes] = {}
    at = 0
    while True:
        strategy = Strategy.offset(at)
        polled = client.poll("s", "t", partition, strategy=strategy, count=1000)
        if not polled.count:
            return found
        for message in messages(polled.region):
            found[partition, message.offset] = message.payload
            at = message.offset + 1


async def go_on(
    broker: BrokerProcess, expected: dict[tuple[int, int], bytes], kept: list[int]
) -> None:
    """The official client reads on from where the reader was, and sends."""
    client = IggyClient(
        TcpConfig(
            server_address=broker.address,
            auto_login=AutoLogin.username_password(USERNAME, PASSWORD),
        )
    )
    await client.connect()
    for partition in range(PARTITIONS):
        end = 1 + max(offset for at, offset in expected if at == partition)
        payload = os.urandom(20).hex()
        answer = await client.send_messages("s", "t", partition, [SendMessage(payload)])
        (confirmation,) = answer.confirmations
        assert confirmation.base_offset == end
        expected[partition, end] = payload.encode()
        found: dict[tuple[int, int], bytes] = {}
        start = at = kept[partition] + 1
        while at <= end:
            polled = await client.poll_messages(
                "s", "t", consumer=OfficialConsumer.Single("other"),
                polling_strategy=PollingStrategy.Offset(at), count=100,
                auto_commit=False, partition_id=partition,
            )  # fmt: skip
            found |= {(partition, one.offset()): bytes(one.payload()) for one in polled}
            at = polled[-1].offset() + 1
        assert found == of_partition(expected, partition, start)


def of_partition(
    messages: dict[tuple[int, int], bytes], partition: int, first: int = 0
) -> dict[tuple[int, int], bytes]:
    return {at: data for at, data in messages.items() if at[0] == partition and at[1] >= first}


@contextmanager
def login_of(broker: BrokerProcess, mode: list[str]) -> Iterator[None]:
    """With an endpoint on the command line the login is the environment's, and no setting helps."""
    settings = broker.settings
    if "--endpoint" in mode:
        broker.settings = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    yield
    broker.settings = settings


@pytest.mark.timeout(600)
def test_lost_volumes_under_load(
    tmp_path: Path,
    place: tuple[ArchiveStore, dict[str, str], str],
    measured: Callable[[str], None],
) -> None:
    store, settings, source = place
    endpoint = settings.get(f"{ARCHIVER}S3_ENDPOINT")
    if endpoint is None:
        rounds = [[], ["--check"], ["--from", source, "--full"]]
    else:
        rounds = [[], ["--from", source, "--full", "--endpoint", endpoint]]
    broker = BrokerProcess(tmp_path / "one", settings={**SETTINGS, **settings})
    try:
        token = make(broker.start())
        wait_until(lambda: users(store) == 2, "users in the archive", WITHIN_S)
        for mode in rounds:
            expected = kill_under_load(broker, store, measured)
            kept = [stored(store, partition) for partition in range(PARTITIONS)]
            with login_of(broker, mode):
                lines = restore(broker, *mode)
            done = summary(lines)
            assert (done["problems"], done["left_out_count"]) == (0, 0)
            for partition, line in enumerate(lines[:-1]):
                assert line["next_offset"] == 1 + max(of_partition(expected, partition))[1]
            measured(f"restore {done['mode']}: {len(expected)} messages, {done['took_ms']} ms")
            broker.start()
            check(broker, token, expected, kept)
            asyncio.run(go_on(broker, expected, kept))
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()
    assert SECRET_KEY not in broker.text()


def users(store: ArchiveStore) -> int:
    """In the archive's metadata."""
    state = read_metadata(store)
    return len(state.users) if state else 0
