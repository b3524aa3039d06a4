"""What encryption at rest costs: the broker with it and without it, in alternating pairs."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

from iggy_bench.load import Target, Work, consume, produce
from iggy_bench.processes import start_broker
from iggy_bench.report import Report, Row, middle, progress
from iggy_bench.throughput import (
    CLIENTS,
    WARM_FACTOR,
    Sample,
    create_topics,
    measure,
    warm_page_cache,
)

WORKS = (
    Work(requests=500, messages=1_000, payload_bytes=1_000),
    Work(requests=20_000, messages=10, payload_bytes=100),
)
_KINDS = {"send": produce, "read": consume}

Samples = dict[tuple[str, str], list[Sample]]  # by who and what


def encrypted_against_plain(folder: Path, report: Report, *, rounds: int) -> None:
    """Rows for sending and reading over one shard, big requests and small ones."""
    for work in WORKS:
        samples: Samples = {}
        for number in range(rounds):
            pair = ["encrypted", "plain"]
            for who in pair if number % 2 == 0 else reversed(pair):
                _run(folder, who, work, samples)
                shutil.rmtree(folder, ignore_errors=True)
                os.sync()
            progress(f"  round {number + 1} of {rounds}, {work.messages} messages a request")
        for kind in _KINDS:
            encrypted, plain = samples["encrypted", kind], samples["plain", kind]
            report.samples[f"encrypted {kind} {work.messages} × {work.payload_bytes} B"] = [
                {
                    "encrypted_mb_per_s": one.mb_per_s,
                    "encrypted_cpu_s_per_gb": one.cpu_s_per_gb,
                    "plain_mb_per_s": other.mb_per_s,
                    "plain_cpu_s_per_gb": other.cpu_s_per_gb,
                }
                for one, other in zip(encrypted, plain, strict=True)
            ]
            report.rows += _rows(kind, work, encrypted, plain)


def _run(folder: Path, who: str, work: Work, samples: Samples) -> None:
    key = base64.b64encode(os.urandom(32)).decode()
    settings = {
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": str(who == "encrypted").lower(),
        "IGGY_SYSTEM_ENCRYPTION_KEY": key,
    }
    with start_broker(folder, shards=1, settings=settings) as server:
        names = [f"topic-{number}" for number in range(CLIENTS)]
        create_topics(server, names)
        targets = [Target(server.port, name, number) for number, name in enumerate(names)]
        warm_page_cache(folder, int(WARM_FACTOR * CLIENTS * work.payload_total_bytes))
        for kind, role in _KINDS.items():
            found = measure(server, role, targets, work)
            samples.setdefault((who, kind), []).append(found)


def _rows(kind: str, work: Work, encrypted: list[Sample], plain: list[Sample]) -> list[Row]:
    what = f"{kind} {work.messages:,} × {work.payload_bytes:,} B a request, encrypted at rest"
    pairs = list(zip(encrypted, plain, strict=True))
    return [
        Row(
            what=f"{what}: CPU",
            ours=f"{middle([one.cpu_s_per_gb for one in encrypted]):.2f} s/GB",
            baseline=f"in the clear {middle([one.cpu_s_per_gb for one in plain]):.2f} s/GB",
            ratio=middle([one.cpu_s_per_gb / other.cpu_s_per_gb for one, other in pairs]),
            aim="",
            met=None,
        ),
        Row(
            what=f"{what}: throughput",
            ours=f"{middle([one.mb_per_s for one in encrypted]):,.0f} MB/s",
            baseline=f"in the clear {middle([one.mb_per_s for one in plain]):,.0f} MB/s",
            ratio=middle([one.mb_per_s / other.mb_per_s for one, other in pairs]),
            aim="",
            met=None,
        ),
    ]
