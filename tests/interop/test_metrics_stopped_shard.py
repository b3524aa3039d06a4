"""Probes and metrics while one shard does not move, and while the broker stops."""

from __future__ import annotations

import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

from broker_process import STOP_S, BrokerProcess
from group_cases import TOPIC, make_topic
from iggy_broker.metadata.placement import pack, shard_of
from scraped import Scrape, scrape_until

PARTITIONS = 8


def ready(broker: BrokerProcess) -> int | None:
    """The status of /ready; None if nobody listens."""
    try:
        url = f"http://127.0.0.1:{broker.monitoring_port}/ready"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None


def test_a_shard_that_does_not_answer_is_left_out_and_a_stopping_broker_is_not_ready(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path, monitoring=True).start()
    stuck = 0
    try:
        with broker.client() as client:
            stream = make_topic(client, partitions=PARTITIONS, per_partition=3)
        whole = Scrape(broker)
        assert whole.sum("iggy_group_lag_messages") == 3 * PARTITIONS
        assert ready(broker) == 200

        stuck = broker.shard_pids()[1]
        os.kill(stuck, signal.SIGSTOP)
        found = Scrape(broker)

        assert found.value("iggy_shards_silent") == 1
        assert found.value("iggy_messages") == 3 * PARTITIONS, "the figures are in shared memory"
        lags = found.series("iggy_group_partition_lag_messages")
        labels = {"stream": stream, "topic": TOPIC, "group": "g"}
        for partition in range(PARTITIONS):
            is_known = shard_of(pack(0, 0, partition), 2) == 0
            name = "iggy_group_partition_lag_messages"
            lag = found.value(name, **labels, partition=partition)
            assert lag == (3 if is_known else None)
        assert 0 < len(lags) < PARTITIONS
        assert found.value("iggy_group_lag_messages", **labels) is None

        os.kill(stuck, signal.SIGCONT)
        again = scrape_until(
            broker, lambda found: found.value("iggy_shards_silent") == 0, "it answers again"
        )
        assert again.sum("iggy_group_lag_messages") == 3 * PARTITIONS
        os.kill(stuck, signal.SIGSTOP)
        assert Scrape(broker).value("iggy_shards_silent") == 1

        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while (status := ready(broker)) == 200:
            assert time.monotonic() < deadline, "it is still ready"
            time.sleep(0.02)
        assert status == 503, "shard 0 waits for the other one, and says so"
        os.kill(stuck, signal.SIGCONT)
        assert broker.stop() == 0
    finally:
        if stuck and broker.is_running:
            os.kill(stuck, signal.SIGCONT)
        broker.end()
