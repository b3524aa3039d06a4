"""A sink job's figures, as Prometheus fetches them, and what it sees of its lag."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iggy_operator.figures import START_PREFIX, START_SOURCES, start_sources
from iggy_operator.program.broker_metrics import read_metrics
from iggy_spark import job_metrics, options
from iggy_spark.job_metrics import JobMetrics
from iggy_spark.job_starts import SOURCES, Start
from iggy_spark.offsets import EARLIEST
from iggy_spark.outlook import Lookout, Outlook, Standing
from iggy_spark.progress import COUNTS
from iggy_spark.retry import AWAY_FAILURES, CAUSES
from job_figures import figure
from played_server import Reply
from played_targets import PlayedElasticsearch
from sink_jobs import PROCESS_S, Setup, documents, every, start
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

DAY_US = 24 * 3600 * 1_000_000


def sample(metrics: JobMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(
        f"iggy_sink_{name}", {"namespace": "shop", "sink": "orders.lake", **labels}
    )


def counts(**given: int) -> dict[str, int]:
    return dict.fromkeys(COUNTS, 0) | given


def test_every_message_of_a_batch_is_counted_once() -> None:
    metrics = JobMetrics("shop/orders.lake")

    done = counts(rows=90, rejected=5, dead=3, filtered=4, skipped=1, size_bytes=1000)
    metrics.batch_done(done, retries={"busy": 2}, seconds=1.5, now=1_795_000_000.0)
    metrics.batch_done(counts(rows=10, lost=7), retries={}, seconds=0.2, now=1_795_000_010.0)

    results = ("written", "rejected", "dead", "filtered", "skipped_replay")
    found = [sample(metrics, "rows_total", result=result) for result in results]
    assert found == [100, 2, 3, 4, 1]
    assert sample(metrics, "bytes_total") == 1000
    retries = [sample(metrics, "retries_total", reason=cause) for cause in CAUSES]
    assert dict(zip(CAUSES, retries, strict=True)) == {
        "busy": 2, "conflict": 0, "held": 0, "unreachable": 0
    }  # fmt: skip
    assert sample(metrics, "lost_messages_total") == 7
    assert sample(metrics, "batch_rows") == 10
    assert sample(metrics, "batch_seconds_sum") == 1.7
    assert sample(metrics, "committed_timestamp_seconds") == 1_795_000_010.0


def test_counters_are_there_before_anything_happens() -> None:
    metrics = JobMetrics("shop/orders.lake")

    assert sample(metrics, "rows_total", result="dead") == 0
    assert sample(metrics, "lost_messages_total") == 0
    assert sample(metrics, "up") == 0
    with metrics.running():
        assert sample(metrics, "up") == 1
    assert sample(metrics, "up") == 0


def test_what_said_where_a_run_begins_is_shown() -> None:
    metrics = JobMetrics("shop/orders.lake")

    metrics.started([Start(5, "target"), Start(EARLIEST, "settings"), Start(7, "target")])

    found = {by: sample(metrics, "start_partitions", by=by) for by in SOURCES}
    assert found == {"checkpoint": 0, "target": 2, "group": 0, "settings": 1}


def test_partitions_are_shown_where_that_is_wanted_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_metrics, "PARTITIONS_MAX", 2)
    seen = {number: Standing(10 * number, number) for number in (3, 1, 2)}
    plain, wide = JobMetrics("shop/orders.lake"), JobMetrics("shop/orders.lake", per_partition=True)

    for metrics in (plain, wide):
        metrics.seen(Outlook(6, 1.0, None, seen))

    assert shown(plain, "next_offset") == shown(plain, "lag_messages") == {}
    assert shown(wide, "next_offset") == {1: 10, 2: 20}
    assert shown(wide, "lag_messages") == {1: 1, 2: 2}
    wide.seen(Outlook(0, 0.0, None, {2: Standing(22, 0)}))  # the others are gone
    assert shown(wide, "next_offset") == {2: 22}
    assert shown(wide, "lag_messages") == {2: 0}


def shown(metrics: JobMetrics, name: str) -> dict[int, float | None]:
    """Partition → figure."""
    found = {n: sample(metrics, f"partition_{name}", partition=str(n)) for n in range(9)}
    return {number: figure for number, figure in found.items() if figure is not None}


def test_headroom_stays_as_it_was_where_messages_never_expire() -> None:
    metrics = JobMetrics("shop/orders.lake")

    metrics.seen(Outlook(5, 30.0, 0.25))
    metrics.seen(Outlook(0, 0.0, None))

    assert sample(metrics, "lag_messages") == 0
    assert sample(metrics, "retention_headroom_ratio") == 0.25


def test_lag_and_headroom_are_those_of_the_oldest_message_that_is_not_done(topic: Topic) -> None:
    expiry = {"message_expiry": DAY_US}
    topic.client.update_topic(topic.stream, topic.name, topic.name, expiry)
    topic.send(0, documents(0, 10))
    topic.send(1, documents(0, 5))
    given = options.parse(topic.options(), mode="stream")
    found = topic.client.get_topic(topic.stream, topic.name)
    assert found is not None
    made_s = found.topic.created_at_us / 1e6
    clock = [0.0]
    lookout = Lookout(given, clock=lambda: clock[0], now=lambda: made_s + DAY_US / 1e6 / 2)

    seen = lookout.look({0: 4, 1: 5})

    assert seen is not None
    assert seen.lag_messages == 6
    assert seen.partitions == {0: Standing(4, 6), 1: Standing(5, 0)}
    half_s = DAY_US / 2e6
    assert half_s - 60 < seen.lag_seconds <= half_s
    assert seen.headroom_ratio is not None
    assert 0.5 <= seen.headroom_ratio < 0.501
    assert lookout.look({0: 4, 1: 5}) is None  # not so soon
    clock[0] += 10
    assert lookout.look({0: 10, 1: 5}) == Outlook(
        0, 0.0, 1.0, {0: Standing(10, 0), 1: Standing(5, 0)}
    )


def test_a_broker_that_is_away_is_not_waited_for(topic: Topic) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    given = options.parse(topic.options(servers=f"127.0.0.1:{port}"), mode="stream")

    assert Lookout(given).look({0: 0}) is None


def test_a_running_job_serves_its_figures_and_holds_nothing_back(
    topic: Topic, tmp_path: Path
) -> None:
    setup = Setup(topic, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    setup.value |= {"name": "shop/orders.lake", "once": False, "metricsPort": port}
    setup.value["sink"]["metrics"] = {"perPartition": True}
    topic.send(0, documents(0, 30))
    process = start(setup)
    try:
        committed = "iggy_sink_committed_timestamp_seconds"
        wait_until(lambda: value(port, committed), "no batch is done", PROCESS_S)
        assert value(port, "iggy_sink_up") == 1
        assert value(port, "iggy_sink_rows_total", result="written") == 30
        wait_until(lambda: standing(port) == (30, 0), "its partition is not shown", PROCESS_S)
        lines = asyncio.run(read_metrics(f"127.0.0.1:{port}", START_PREFIX))  # as the operator
        assert start_sources(lines) == ["settings"]
        assert START_SOURCES == SOURCES
        topic.send(1, documents(0, 3))  # and then silence
        rows = partial(value, port, "iggy_sink_rows_total", result="written")
        wait_until(lambda: rows() == 33, "the new rows are not counted", PROCESS_S)
        assert setup.rows() == every(p0=30, p1=3)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PROCESS_S)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"
    assert carried(out) == [30, 3]  # the trigger that found them has written them, and none later


def test_a_job_whose_target_is_away_does_not_look_well(topic: Topic, tmp_path: Path) -> None:
    with PlayedElasticsearch() as search, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        block = {"urls": [search.url], "index": "orders"}
        quick = {"retry": {"timeout": "10m", "initialDelay": "50ms", "maxDelay": "100ms"}}
        kind: dict[str, Any] = {"type": "Elasticsearch", "elasticsearch": block, "errors": quick}
        setup = Setup(topic, tmp_path, files=None, trigger={"interval": "1s"}, **kind)
        setup.value |= {"name": "shop/orders.lake", "once": False, "metricsPort": port}
        free.close()
        written = partial(value, port, "iggy_sink_rows_total", result="written")
        up = partial(value, port, "iggy_sink_up")
        topic.send(0, documents(0, 30))
        process = start(setup)
        try:
            wait_until(lambda: (written(), up()) == (30, 1), "no batch is done", PROCESS_S)

            search.faults += [Reply(503)] * 100_000
            topic.send(0, documents(30, 35))
            wait_until(lambda: up() == 0, "it looks well without its target", PROCESS_S)
            assert written() == 30
            assert standing(port) == (None, None)

            search.faults.clear()
            wait_until(lambda: (written(), up()) == (35, 1), "it does not recover", PROCESS_S)
            retries = value(port, "iggy_sink_retries_total", reason="busy")
            assert retries is not None and retries >= AWAY_FAILURES
        finally:
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PROCESS_S)
        told = [
            one for one in map(json.loads, out.splitlines()) if one["event"] in ("away", "back")
        ]
        assert [one["event"] for one in told] == ["away", "back"]
        assert f"{search.url}/_bulk answers 503" in told[0]["reason"]
    # It looked ill within its first batch without target, and nothing of that counted before.
    assert carried(out) == [30, 5]


def carried(out: str) -> list[int]:
    """Rows of the batches that a job has told of."""
    events = map(json.loads, out.splitlines())
    return [event["rows"] for event in events if event["event"] == "progress"]


def standing(port: int) -> tuple[float | None, float | None]:
    """Next offset and lag of partition 0."""
    return (
        value(port, "iggy_sink_partition_next_offset", partition="0"),
        value(port, "iggy_sink_partition_lag_messages", partition="0"),
    )


def value(port: int, name: str, **labels: str) -> float | None:
    """One figure that the job serves; None while it does not."""
    return figure(port, name, namespace="shop", sink="orders.lake", **labels)
