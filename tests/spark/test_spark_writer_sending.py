"""Columns of messages into a real broker, without Spark."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import Client
from iggy_spark import connections, encode, options
from iggy_spark.connections import Reach
from iggy_spark.errors import BadRow, BrokerRefused, IggySparkError
from iggy_spark.sending import Outgoing, Receipt, Sender, groups, partitions_of_keys
from iggy_wire import batch as batches
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy

if TYPE_CHECKING:
    from conftest import Topic


def sender(
    topic: Topic, receipts: list[Receipt] | None = None, *, batch_messages: int = 1000
) -> Sender:
    reach = options.parse(topic.options(retryTimeoutMs="20s"), mode=None)
    note = [].append if receipts is None else receipts.append
    return Sender(reach, batch_messages=batch_messages, on_receipt=note)


def reach(broker: BrokerProcess) -> Reach:
    given = {"servers": broker.address, "username": USERNAME, "password": PASSWORD}
    return options.parse(given | {"topic": "t", "stream": "s", "retryTimeoutMs": "60s"}, mode=None)


def numbered(count: int, *, start: int = 0) -> Outgoing:
    numbers = range(start, start + count)
    ids = pa.array([(number + 1).to_bytes(16, "big") for number in numbers], pa.binary())
    return Outgoing.of(pa.array([f"m{number}" for number in numbers]), ids=ids)


def stored(client: Client, stream: str, topic: str, partition: int) -> list[Message]:
    found: list[Message] = []
    while True:
        strategy = PollingStrategy.offset(len(found))
        polled = client.poll(stream, topic, partition, strategy=strategy, count=10_000)
        if not polled.count:
            return found
        found += batches.messages(polled.region)


def read(topic: Topic, partition: int) -> list[Message]:
    return stored(topic.client, topic.stream, topic.name, partition)


def test_a_batch_is_what_the_message_by_message_builder_makes() -> None:
    messages = [
        Message(b"x" * size, id=size << 100 | 7, headers=b"h" * (size % 3)) for size in range(1, 50)
    ]
    columns = Outgoing.of(
        pa.array([message.payload for message in messages], pa.binary()),
        ids=pa.array([message.id.to_bytes(16, "big") for message in messages], pa.binary(16)),
        headers=pa.array([message.headers or None for message in messages], pa.binary()),
    )

    made = encode.batch(columns.slice(3, 40), origin_timestamp_us=1_234_567)

    assert made == batches.build(messages[3:43], origin_timestamp_us=1_234_567)


def test_requests_keep_both_limits_and_the_order() -> None:
    payloads = [b"p" * size for size in (10, 10, 10, 5000, 10, 10)]
    columns = Outgoing.of(pa.array(payloads, pa.binary()))

    parts = list(encode.requests(columns, bytes_max=256 + 2 * 58, count_max=100))

    assert [len(part) for part in parts] == [2, 1, 1, 2]
    assert list(itertools.chain(*(part.payloads.to_pylist() for part in parts))) == payloads
    by_count = encode.requests(columns, bytes_max=1 << 20, count_max=4)
    assert [len(part) for part in by_count] == [4, 2]


def test_messages_arrive_whole_and_the_receipts_say_where(topic: Topic) -> None:
    headers = pa.array([None, b"\x02\x01\x00\x00\x00a\x02\x01\x00\x00\x00b", b""], pa.binary())
    ids = pa.array([number.to_bytes(16, "big") for number in (1, 2 << 120, 3)], pa.binary())
    receipts = list[Receipt]()
    used = sender(topic, receipts, batch_messages=2)

    used.send(
        topic.stream,
        topic.name,
        Outgoing.of(pa.array([b"a", b"\xff\x00", b"c"], pa.binary()), ids=ids, headers=headers),
        partitions=1,
    )

    assert receipts == [
        Receipt(topic.stream, topic.name, 1, 0, 1),
        Receipt(topic.stream, topic.name, 1, 2, 2),
    ]
    found = read(topic, 1)
    assert [message.payload for message in found] == [b"a", b"\xff\x00", b"c"]
    assert [message.id for message in found] == [1, 2 << 120, 3]
    assert [message.headers for message in found] == [b"", headers[1].as_py(), b""]
    assert read(topic, 0) == []


def test_without_a_target_the_broker_takes_turns(topic: Topic) -> None:
    receipts = list[Receipt]()
    used = sender(topic, receipts, batch_messages=5)

    used.send(topic.stream, topic.name, numbered(20))

    assert {receipt.partition for receipt in receipts} == {0, 1}
    assert len(read(topic, 0)) + len(read(topic, 1)) == 20
    assert len({message.id for message in read(topic, 0)}) == len(read(topic, 0))


@pytest.mark.parametrize("topic", [3], indirect=True)
def test_rows_go_to_their_partitions_in_their_order(topic: Topic) -> None:
    partitions = pa.array([number % 3 for number in range(300)], pa.int32())

    sender(topic, batch_messages=30).send(
        topic.stream, topic.name, numbered(300), partitions=partitions
    )

    for partition in range(3):
        assert [message.payload for message in read(topic, partition)] == [
            f"m{number}".encode() for number in range(partition, 300, 3)
        ]


@pytest.mark.parametrize("topic", [5], indirect=True)
def test_a_key_goes_where_the_broker_puts_it(topic: Topic) -> None:
    keys = [f"customer-{number}" for number in range(40)]
    for key in keys:
        message = Message(key.encode(), id=1)
        topic.client.send(topic.stream, topic.name, Partitioning.key(key), [message])
    placed = {message.payload: p for p in range(5) for message in read(topic, p)}

    sender(topic).send(topic.stream, topic.name, Outgoing.of(pa.array(keys)), keys=pa.array(keys))

    for partition in range(5):
        both = [message.payload for message in read(topic, partition)]
        half = len(both) // 2
        assert both[:half] == both[half:]
        assert {placed[payload] for payload in both} <= {partition}


def test_a_key_that_is_null_goes_anywhere_and_a_long_one_nowhere() -> None:
    found = partitions_of_keys(pa.array(["a", None, "a"]), 1000)

    assert found[0] == found[2] == 0x550D7456 % 1000
    assert found[1] == -1
    for key in ("", "k" * 256):
        with pytest.raises(BadRow, match=f"key has {len(key)} bytes, a key takes 1 to 255"):
            partitions_of_keys(pa.array([key]), 3)


def test_groups_keep_the_order() -> None:
    found = list(groups(np.array([2, -1, 2, 0, -1])))

    assert [(target, list(rows)) for target, rows in found if rows is not None] == [
        (-1, [1, 4]),
        (0, [3]),
        (2, [0, 2]),
    ]
    assert list(groups(np.array([4, 4]))) == [(4, None)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"payloads": ["a", None]}, "row 1: payload is null"),
        ({"payloads": ["a", ""]}, "row 1: payload has 0 bytes, a message takes 1 to 64000000"),
        (
            {"payloads": ["a"], "ids": [b"short"]},
            "row 0: id has 5 bytes, a message takes 16",
        ),
        (
            {"payloads": ["a"], "headers": [b"h" * 100_001]},
            "row 0: headers, encoded has 100001 bytes, a message takes 0 to 100000",
        ),
        ({"payloads": [b"p" * 64_000_001]}, "row 0: payload has 64000001 bytes"),
    ],
)
def test_a_row_that_makes_no_message_is_refused(columns: dict[str, list[bytes]], told: str) -> None:
    arrays = {name: pa.array(values) for name, values in columns.items()}

    with pytest.raises(BadRow, match=told):
        Outgoing.of(arrays.pop("payloads"), **arrays)


def test_what_is_not_there_is_named(topic: Topic) -> None:
    receipts = list[Receipt]()
    used = sender(topic, receipts)

    with pytest.raises(BadRow, match=r"partition 7 is not there: .* has 2, counted from 0"):
        used.send(topic.stream, topic.name, numbered(2), partitions=pa.array([0, 7], pa.int32()))
    with pytest.raises(BrokerRefused, match=r"topic 'gone' in stream .* does not exist"):
        used.send(topic.stream, "gone", numbered(1), keys=pa.array(["k"]))
    with pytest.raises(BrokerRefused, match="topic=gone"):
        used.send(topic.stream, "gone", numbered(1))
    assert receipts == []


def test_a_request_above_the_limit_of_the_broker_is_refused_with_its_size(tmp_path: Path) -> None:
    settings = {"IGGY_MESSAGE_BUS_MAX_MESSAGE_SIZE": "64 KiB"}
    with running_broker(tmp_path / "broker", shards=1, settings=settings) as broker:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1)
        receipts = list[Receipt]()
        used = Sender(reach(broker), on_receipt=receipts.append)
        large = "p" * 70_000

        with pytest.raises(BrokerRefused, match=r"a message that takes 70304 .*max_message_size"):
            used.send("s", "t", Outgoing.of(pa.array([large])))
        with pytest.raises(BrokerRefused, match=r"2 messages of 70352 bytes .* lower batchBytes"):
            used.send("s", "t", Outgoing.of(pa.array([large[:35_000], large[35_000:]])))
        used.send("s", "t", Outgoing.of(pa.array([large[:35_000]])))
        assert [receipt.first for receipt in receipts] == [0]
        connections.close_all()


def test_a_missing_topic_is_made_with_its_stream_and_kept(topic: Topic) -> None:
    used, stream = sender(topic), f"{topic.stream}/new"

    used.ensure_topic(stream, "fresh", 3, {"message_expiry": 3_600_000_000})
    used.ensure_topic(stream, "fresh", 9)

    assert used.partitions_count(stream, "fresh") == 3


def test_a_login_needs_the_right_to_send_and_for_keys_the_right_to_look(topic: Topic) -> None:
    sends = topic.user(send_messages=True)
    both = topic.user(send_messages=True, read_topic=True)
    keys = pa.array(["k"])

    Sender(options.parse(topic.options(**sends), mode=None)).send(
        topic.stream, topic.name, numbered(1), partitions=0
    )
    Sender(options.parse(topic.options(**both), mode=None)).send(
        topic.stream, topic.name, numbered(1), keys=keys
    )
    with pytest.raises(BrokerRefused, match=r"get_topic .*lacks the permission"):
        Sender(options.parse(topic.options(**sends), mode=None)).send(
            topic.stream, topic.name, numbered(1), keys=keys
        )

    assert len(read(topic, 0)) + len(read(topic, 1)) == 2


def test_a_killed_broker_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker", shards=1) as broker:
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1, {"durability": "persisted"})
        receipts = list[Receipt]()
        used = Sender(reach(broker), batch_messages=20, on_receipt=receipts.append)
        halfway, failures = threading.Event(), list[IggySparkError]()

        def work() -> None:
            try:
                for start in range(0, 4000, 100):
                    used.send("s", "t", numbered(100, start=start), partitions=0)
                    if start == 1000:
                        halfway.set()
            except IggySparkError as error:
                failures.append(error)
            finally:
                halfway.set()

        thread = threading.Thread(target=work)
        thread.start()
        halfway.wait()
        broker.kill()
        broker.start()
        thread.join()

        assert failures == []
        with broker.client() as client:
            found = stored(client, "s", "t", 0)
        ids = [message.id for message in found]
        assert set(ids) == set(range(1, 4001))
        for receipt in receipts:
            assert len(found) > receipt.last
        acknowledged = [
            found[offset].id
            for receipt in receipts
            for offset in range(receipt.first, receipt.last + 1)
        ]
        assert acknowledged == list(range(1, 4001)), "at its offset, in order, once"
