"""Many clients at once, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from access_cases import code_of
from broker_process import BrokerProcess
from iggy_client import Client, messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy
from statement_cases import TOPIC, new_name, new_stream, send

CROWD = 20
ROUNDS = 60
BATCH = 4
PAYLOAD = bytes(50_000)  # some segments of 1 MiB are filled


@pytest.fixture(scope="module")
def crowd(broker: BrokerProcess) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(broker.client()) for _ in range(CROWD)]


def at_once(crowd: list[Client], work: Callable[[Client, int], object]) -> Counter[int]:
    """How often each outcome came when all did it in the same moment; 0: a success."""
    start, codes = threading.Barrier(CROWD), Counter[int]()
    lock = threading.Lock()

    def run(client: Client, number: int) -> None:
        start.wait()
        code = code_of(lambda: work(client, number)) or 0
        with lock:
            codes[code] += 1

    threads = [
        threading.Thread(target=run, args=(client, number)) for number, client in enumerate(crowd)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.total() == CROWD
    return codes


def test_of_one_name_there_is_one(crowd: list[Client]) -> None:
    stream, name = new_stream(crowd[0]), new_name("one")
    cases: list[tuple[Callable[[Client, int], object], ErrorCode]] = [
        (lambda client, _: client.create_stream(name), ErrorCode.STREAM_NAME_ALREADY_EXISTS),
        (
            lambda client, _: client.create_topic(stream, name, 2),
            ErrorCode.TOPIC_NAME_ALREADY_EXISTS,
        ),
        (lambda client, _: client.create_user(name, "a secret"), ErrorCode.USER_ALREADY_EXISTS),
    ]
    for work, taken in cases:
        assert at_once(crowd, work) == {0: 1, taken: CROWD - 1}


def test_of_many_names_there_are_many(crowd: list[Client]) -> None:
    stream, name = new_stream(crowd[0]), new_name("many")
    for work in (
        lambda client, number: client.create_stream(f"{name}-{number}"),
        lambda client, number: client.create_topic(stream, f"{name}-{number}", 1),
        lambda client, number: client.create_user(f"{name}-{number}", "a secret"),
    ):
        assert at_once(crowd, work) == {0: CROWD}
    for listed in (
        [(one.id, one.name) for one in crowd[0].get_streams()],
        [(one.id, one.name) for one in crowd[0].get_topics(stream)],
        [(one.id, one.name) for one in crowd[0].get_users()],
    ):
        found = [number for number, text in listed if text.startswith(name)]
        assert len(set(found)) == CROWD


def test_each_of_many_adds_its_partition(crowd: list[Client]) -> None:
    stream = new_stream(crowd[0], partitions=1)

    codes = at_once(crowd, lambda client, _: client.create_partitions(stream, TOPIC, 1))

    assert codes == {0: CROWD}
    found = crowd[0].get_topic(stream, TOPIC)
    assert found is not None
    assert [one.id for one in found.partitions] == list(range(CROWD + 1))


def test_readers_miss_nothing_while_batches_of_many_come_in(
    broker: BrokerProcess, crowd: list[Client]
) -> None:
    stream = new_stream(crowd[0], partitions=1, segment_size=1 << 20)
    producers, total = 3, 3 * ROUNDS * BATCH

    def produce(client: Client, producer: int) -> None:
        for number in range(ROUNDS):
            head = f"{producer}/{number}/".encode()
            send(client, stream, 0, *(head + bytes((place,)) + PAYLOAD for place in range(BATCH)))

    read: list[list[tuple[int, bytes]]] = [[], []]

    def consume(client: Client, found: list[tuple[int, bytes]]) -> None:
        while len(found) < total and producing:
            strategy = PollingStrategy.offset(len(found))
            polled = client.poll(stream, TOPIC, 0, strategy=strategy, count=10)
            found += [(one.offset, one.payload[: -len(PAYLOAD)]) for one in messages(polled)]

    producing = [True]
    threads = [
        *(threading.Thread(target=produce, args=(crowd[n], n)) for n in range(producers)),
        *(threading.Thread(target=consume, args=(crowd[9 + n], read[n])) for n in range(2)),
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join(50)
    finally:
        producing.clear()
    assert not any(thread.is_alive() for thread in threads)

    assert read[0] == read[1]
    assert [offset for offset, _ in read[0]] == list(range(total))
    batches = [read[0][at : at + BATCH] for at in range(0, total, BATCH)]
    for batch in batches:  # nobody's messages are among another's
        head = batch[0][1][:-1]
        assert [payload for _, payload in batch] == [head + bytes((n,)) for n in range(BATCH)]
    per_producer = Counter(batch[0][1].split(b"/")[0] for batch in batches)
    assert set(per_producer.values()) == {ROUNDS}
    topic = crowd[0].get_topic(stream, TOPIC)
    assert topic is not None and topic.partitions[0].segments_count > 5
