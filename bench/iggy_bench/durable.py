"""Sync before the answer: producers that share an fsync, against one file and one loop."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path

from iggy_bench.load import Done, Target, Work, sealed_batch
from iggy_bench.processes import start_broker
from iggy_bench.report import Report, Row, middle, percentile, progress
from iggy_bench.small import produce_many
from iggy_bench.throughput import create_topics

PRODUCERS = 16
PAYLOAD_BYTES = 100
LOOP_S = 1.0
PRODUCED_S = 2.0  # about: the number of requests follows from a short first run
FIRST_REQUESTS = 200
RATIO_MIN = 2.0


def bare_loop(folder: Path, *, sync: bool = True) -> list[float]:
    """Append one batch and fdatasync, again and again, for `LOOP_S`: seconds of each turn."""
    folder.mkdir(parents=True, exist_ok=True)
    data = bytes(sealed_batch(1, PAYLOAD_BYTES))
    file = os.open(folder / "loop", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    turns_s = []
    try:
        began = before = time.monotonic()
        while before - began < LOOP_S:
            os.write(file, data)
            if sync:
                os.fdatasync(file)
            now = time.monotonic()
            turns_s.append(now - before)
            before = now
    finally:
        os.close(file)
    return turns_s


def persisted_against_bare(folder: Path, report: Report, *, rounds: int) -> None:
    """Rows for one and for 16 producers on one partition that is synced before each answer."""
    loops: list[list[float]] = []
    ones: list[Done] = []
    many: list[Done] = []
    for number in range(rounds):
        before = bare_loop(folder / "loop")
        with start_broker(folder / "broker", shards=1) as server:
            create_topics(server, ["synced"], {"durability": "persisted"})
            ones.append(produce(server.port, "synced", 1))
            many.append(produce(server.port, "synced", PRODUCERS))
        # Before and after: a shared disk does not stay as fast as it was.
        loops.append(before + bare_loop(folder / "loop"))
        shutil.rmtree(folder, ignore_errors=True)
        progress(f"  round {number + 1} of {rounds}")
    report.samples["persisted"] = [
        {
            "loop_per_s": _rate(loop),
            "loop_p50_ms": percentile(loop, 50) * 1e3,
            "loop_p99_ms": percentile(loop, 99) * 1e3,
            "one_per_s": requests_per_s(one),
            "one_p50_ms": percentile(one.latencies_s, 50) * 1e3,
            "one_p99_ms": percentile(one.latencies_s, 99) * 1e3,
            "many_per_s": requests_per_s(several),
            "many_p50_ms": percentile(several.latencies_s, 50) * 1e3,
            "many_p99_ms": percentile(several.latencies_s, 99) * 1e3,
        }
        for loop, one, several in zip(loops, ones, many, strict=True)
    ]
    report.rows += [
        _row(report, "one producer", "one", aim=None),
        _row(report, f"{PRODUCERS} producers", "many", aim=RATIO_MIN),
    ]


def _row(report: Report, who: str, key: str, *, aim: float | None) -> Row:
    samples = report.samples["persisted"]

    def of(name: str) -> float:
        return middle([sample[name] for sample in samples])

    ratio = middle([sample[f"{key}_per_s"] / sample["loop_per_s"] for sample in samples])
    return Row(
        what=f"one message of 100 B, on disk before the answer, {who} on one partition",
        ours=f"{of(f'{key}_per_s'):,.0f} /s, p50 {of(f'{key}_p50_ms'):.2f} ms, "
        f"p99 {of(f'{key}_p99_ms'):.2f} ms",
        baseline=f"append + fdatasync loop {of('loop_per_s'):,.0f} /s, "
        f"p50 {of('loop_p50_ms'):.2f} ms, p99 {of('loop_p99_ms'):.2f} ms",
        ratio=ratio,
        aim="" if aim is None else f"≥ {aim:.0f}",
        met=None if aim is None else ratio >= aim,
    )


def produce(port: int, topic: str, producers: int) -> Done:
    """A short run says how many requests fill `PRODUCED_S`; the second one counts."""
    targets = [Target(port, topic, number) for number in range(producers)]
    first = _in_a_process(targets, FIRST_REQUESTS)
    requests = max(FIRST_REQUESTS, int(requests_per_s(first) * PRODUCED_S))
    return _in_a_process(targets, requests)


def _in_a_process(targets: list[Target], requests: int) -> Done:
    """The load generator has a process of its own: its work is not the report's."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    work = Work(requests=requests, messages=1, payload_bytes=PAYLOAD_BYTES)
    client = context.Process(target=_client, args=(targets, work, there), daemon=True)
    client.start()
    there.close()
    try:
        done: Done = here.recv()
    except EOFError:
        raise RuntimeError("the load generator died: see its traceback above") from None
    finally:
        client.join()
    return done


def _client(targets: list[Target], work: Work, pipe: Connection) -> None:
    with pipe:
        pipe.send(produce_many(targets, work))


def requests_per_s(done: Done) -> float:
    """Of all producers together."""
    return len(done.latencies_s) / (done.ended_s - done.began_s)


def _rate(turns_s: list[float]) -> float:
    return len(turns_s) / sum(turns_s)
