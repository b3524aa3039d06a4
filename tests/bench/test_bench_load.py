"""The load generator against both servers: every request is counted, every byte is there."""

from pathlib import Path

import pytest

from iggy_bench.durable import bare_loop
from iggy_bench.load import Target, Work, consume, produce, run_clients, sealed_batch
from iggy_bench.processes import start_bare, start_broker
from iggy_bench.small import produce_many
from iggy_bench.throughput import create_topics

WORK = Work(requests=20, messages=10, payload_bytes=1_000)


def test_the_bare_server_keeps_and_returns_the_bytes(tmp_path: Path) -> None:
    with start_bare(tmp_path, processes=1) as server:
        targets = [Target(server.port, "topic", number, bare=True) for number in range(2)]
        sent = run_clients(produce, targets, WORK)
        read = run_clients(consume, targets, WORK)

        assert server.cpu_s() >= 0

    assert [len(one.latencies_s) for one in (*sent, *read)] == [WORK.requests] * 4
    batch_bytes = len(sealed_batch(WORK.messages, WORK.payload_bytes))
    for number in range(2):
        assert (tmp_path / str(number)).stat().st_size == WORK.requests * batch_bytes


def test_the_broker_keeps_and_returns_the_messages(tmp_path: Path) -> None:
    with start_broker(tmp_path, shards=2) as server:
        create_topics(server, ["topic-0", "topic-1"])
        targets = [Target(server.port, f"topic-{number}", number) for number in range(2)]
        sent = run_clients(produce, targets, WORK)
        read = run_clients(consume, targets, WORK)

        assert server.pss_bytes() > 0

    assert [len(one.latencies_s) for one in (*sent, *read)] == [WORK.requests] * 4


def test_many_producers_share_one_partition(tmp_path: Path) -> None:
    work = Work(requests=50, messages=1, payload_bytes=100)
    with start_broker(tmp_path, shards=1) as server:
        create_topics(server, ["synced"], {"durability": "persisted"})
        done = produce_many([Target(server.port, "synced", number) for number in range(4)], work)

    assert len(done.latencies_s) == work.requests


def test_a_killed_broker_is_opened_again(tmp_path: Path) -> None:
    with start_broker(tmp_path, shards=1) as server:
        create_topics(server, ["topic-0"])
        run_clients(produce, [Target(server.port, "topic-0", 0)], WORK)
        server.kill()

    with start_broker(tmp_path, shards=1) as server:
        read = run_clients(consume, [Target(server.port, "topic-0", 0)], WORK)

    assert len(read[0].latencies_s) == WORK.requests


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="IGGY_TCP_ADDRESS"):
        start_broker(tmp_path, shards=1, settings={"IGGY_TCP_ADDRESS": "nonsense"})


def test_the_bare_loop_measures_each_turn(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("iggy_bench.durable.LOOP_S", 0.02)

    turns_s = bare_loop(tmp_path)

    assert turns_s
    assert min(turns_s) > 0
