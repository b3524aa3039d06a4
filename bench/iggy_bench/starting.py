"""How long a broker takes to open a log, and how much memory it needs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from iggy_bench.load import STREAM, Target, Work, produce, run_clients
from iggy_bench.processes import PASSWORD, USERNAME, Server, start_broker
from iggy_bench.report import Report, Row, middle, progress
from iggy_bench.throughput import create_topics
from iggy_client import Client

LOG = Work(requests=2_000, messages=1_000, payload_bytes=1_000)  # 2 GB of payload
OPEN_S_MAX = 1.0
SHARDS = 2
REQUESTS_BEFORE_PSS = 1_000
PSS_MIB_MAX = 80
CONNECTIONS = 8


def opening(folder: Path, report: Report, *, rounds: int) -> None:
    """Rows for a 2 GB log after a clean stop and after SIGKILL, beside an empty start."""
    empty: list[Start] = []
    clean: list[Start] = []
    killed: list[Start] = []
    for number in range(rounds):
        with start_broker(folder / "empty", shards=SHARDS) as server:
            empty.append(_start_of(server))
        home = folder / "full"
        with start_broker(home, shards=SHARDS) as server:
            create_topics(server, ["log"])
            run_clients(produce, [Target(server.port, "log", 0)], LOG)
        os.sync()  # a disk that is busy writing would be measured, not the start
        with start_broker(home, shards=SHARDS) as server:
            clean.append(_start_of(server))
            _check_end(server, LOG.requests * LOG.messages)
            run_clients(produce, [Target(server.port, "log", 0)], LOG)
            server.kill()
        os.sync()
        with start_broker(home, shards=SHARDS) as server:
            killed.append(_start_of(server))
            _check_end(server, 2 * LOG.requests * LOG.messages)
        shutil.rmtree(folder, ignore_errors=True)
        progress(f"  round {number + 1} of {rounds}")
    report.samples["opening"] = [
        {f"{name}_{field}": value for name, start in kinds for field, value in start.items()}
        for kinds in (
            (("empty", one), ("clean", two), ("killed", three))
            for one, two, three in zip(empty, clean, killed, strict=True)
        )
    ]
    report.rows += [
        _opening_row("opening a 2 GB log after a clean stop", empty, clean),
        _opening_row("opening a 4 GB log, 2 GB of it just written, after SIGKILL", empty, killed),
    ]


Start = dict[str, float]


def _start_of(server: Server) -> Start:
    return {"s": server.started_s, "cpu_s": server.started_cpu_s}


def _opening_row(what: str, empty: list[Start], full: list[Start]) -> Row:
    def of(starts: list[Start], name: str) -> float:
        return middle([start[name] for start in starts])

    return Row(
        what=what,
        ours=f"ready after {of(full, 's'):.2f} s, CPU {of(full, 'cpu_s'):.2f} s",
        baseline=f"with no data {of(empty, 's'):.2f} s, CPU {of(empty, 'cpu_s'):.2f} s",
        ratio=middle([one["s"] / other["s"] for one, other in zip(full, empty, strict=True)]),
        aim=f"< {OPEN_S_MAX:.0f} s",
        met=of(full, "s") < OPEN_S_MAX,
        by_clock=True,
    )


def _check_end(server: Server, messages: int) -> None:
    with Client.connect(server.address, USERNAME, PASSWORD) as client:
        topic = client.get_topic(STREAM, "log")
    if topic is None or topic.topic.messages_count != messages:
        raise RuntimeError(f"the log was to have {messages:,} messages: {topic}")


def memory(folder: Path, report: Report) -> None:
    """PSS of supervisor and shards after a thousand requests over several connections."""
    with start_broker(folder / "memory", shards=SHARDS) as server:
        create_topics(server, ["memory"])
        work = Work(requests=REQUESTS_BEFORE_PSS // CONNECTIONS, messages=10, payload_bytes=100)
        targets = [Target(server.port, "memory", number) for number in range(CONNECTIONS)]
        run_clients(produce, targets, work)
        mib = server.pss_bytes() / (1 << 20)
    report.samples["memory"] = [{"pss_mib": mib}]
    report.rows.append(
        Row(
            what=f"memory of supervisor and {SHARDS} shards after 1,000 requests (PSS)",
            ours=f"{mib:.0f} MiB",
            baseline="",
            ratio=None,
            aim=f"≤ {PSS_MIB_MAX} MiB",
            met=mib <= PSS_MIB_MAX,
        )
    )
