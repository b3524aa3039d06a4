"""What the benches of sinks share: documents, tasks that write at once, and whole jobs."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

from iggy_bench import processes
from iggy_client import Client
from iggy_spark import job_config
from iggy_spark.job import Job
from iggy_spark.progress import Reporter
from iggy_spark.stop import Stop
from iggy_wire.batch import Message, build

PORTION_ROWS = 4000  # messages of 1 KB: about 4 MiB, as a fetch brings them
JOB_PARTITIONS = 2
JOB_BATCHES = 4
_SEND_MESSAGES = 1000
SCHEMA = (
    "number BIGINT NOT NULL, month INT, customer STRING, amount DECIMAL(18,2), at TIMESTAMP, "
    "note STRING"
)  # of `document`


def document(number: int) -> bytes:
    """1 KB of JSON."""
    value = {
        "number": number, "month": number % 12 + 1, "customer": f"c{number}",
        "amount": f"{number}.25", "at": "2026-03-29T00:59:59.999999Z",
        "note": f"some words, and {number} of them " * 27,
    }  # fmt: skip
    return json.dumps(value).encode()


class Used(NamedTuple):
    """What a run took."""

    seconds: float
    cpu_s: float


def at_once(carry: Callable[..., None], each: Sequence[tuple[Any, ...]], cpu_s: Any) -> Used:
    """Run `carry(*arguments, gate)` in a process for each of the arguments, all at once.

    `carry` waits at the gate when it is ready, when it is done, and once more so that its
    processor time can be read: `cpu_s` says what has been used so far.
    """
    gate: Barrier = multiprocessing.Barrier(len(each) + 1)
    crowd = [multiprocessing.Process(target=carry, args=(*args, gate)) for args in each]
    for one in crowd:
        one.start()
    gate.wait()
    before, began = cpu_s(), time.perf_counter()
    gate.wait()
    used = Used(time.perf_counter() - began, cpu_s() - before)
    gate.wait()
    for one in crowd:
        one.join()
    return used


def job_batches(
    sink: dict[str, Any], made: Callable[[int], bytes], rows: int, folder: Path
) -> list[dict[str, Any]]:
    """What a whole job tells of its batches: broker, Spark and a sink with this block. `made` gives
    the message of each number.
    """
    with processes.start_broker(folder / "broker", shards=1) as broker:
        login = (processes.USERNAME, processes.PASSWORD)
        with Client.connect(broker.address, *login) as client:
            _fill(client, made, rows)
        value = {
            "name": "bench", "broker": {"address": broker.address}, "stream": "bench",
            "topic": "rows", "checkpoint": str(folder / "checkpoint"), "once": True,
            "sink": {**sink, "maxOffsetsPerTrigger": max(rows // JOB_BATCHES, 1)},
        }  # fmt: skip
        file, out = folder / "job.json", folder / "events"
        file.write_text(json.dumps(value))
        environ = {"IGGY_USERNAME": login[0], "IGGY_PASSWORD": login[1]}
        with closing(out.open("w")) as told:
            job = Job(job_config.load(file), environ, Reporter(told), stop=Stop(signals=False))
            job.run()
    events = map(json.loads, out.read_text().splitlines())
    return [event for event in events if event["event"] == "progress"]


def _fill(client: Client, made: Callable[[int], bytes], rows: int) -> None:
    """A topic of two partitions with the messages."""
    client.create_stream("bench")
    client.create_topic("bench", "rows", JOB_PARTITIONS)
    for first in range(0, rows, _SEND_MESSAGES):
        messages = [Message(made(number)) for number in range(first, first + _SEND_MESSAGES)]
        batch = build(messages, origin_timestamp_us=1)
        client.send_batch("bench", "rows", first // _SEND_MESSAGES % JOB_PARTITIONS, batch)
