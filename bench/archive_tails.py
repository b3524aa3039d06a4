"""How many partitions a continuous archive copies within its interval.

    python bench/archive_tails.py [PARTITIONS] [PASSES]

For an archive in a folder, and for one in a real object store (SeaweedFS) on the same machine: one
broker, one shard, one topic of so many partitions (default 400), each of which gets a message of
1,000 B again and again, so that every pass has something to copy of all of them. It prints how
long a pass took (median of PASSES, default 5), how far the archive was behind at most, and how many
partitions that makes in 5 s, the usual interval.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

from iggy_bench.processes import PASSWORD, USERNAME, Server, start_broker  # noqa: E402
from iggy_client.client import Client  # noqa: E402
from iggy_wire.batch import Message  # noqa: E402
from iggy_wire.primitives import Partitioning  # noqa: E402
from object_store import ACCESS_KEY, SECRET_KEY, running_object_store  # noqa: E402

NAME: Final = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
INTERVAL_S: Final = 5
SETTINGS: Final = {
    f"{NAME}ENABLED": "true",
    f"{NAME}CONTINUOUS": "true",
    f"{NAME}INTERVAL": f"{INTERVAL_S} s",
}
MESSAGE_BYTES: Final = 1000
ROUND_S: Final = 2.0
"""All partitions get a message in each, so that none is without one when its turn comes."""
WARM_UP: Final = 2
PASS_S_MAX: Final = 300.0


@contextmanager
def load(server: Server, partitions: int) -> Iterator[None]:
    """Send to all partitions in turn for the length of a block."""
    over = threading.Event()

    def send() -> None:
        message = [Message(bytes(MESSAGE_BYTES))]
        with Client.connect(server.address, USERNAME, PASSWORD) as client:
            while not over.is_set():
                for partition in range(partitions):
                    client.send("s", "t", Partitioning.partition(partition), message)
                over.wait(ROUND_S)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def gauge(server: Server, name: str) -> float:
    """A metric of the only shard."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.monitoring_port}/metrics") as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"iggy_archiver_{name}{{"):
                return float(line.rpartition(" ")[2])
    raise RuntimeError(f"no metric {name}")


def passes(server: Server, count: int) -> tuple[list[float], float]:
    """How long so many took, in s, and how far the archive was behind at most."""
    took_s: list[float] = []
    behind_s, until_s = 0.0, time.monotonic() + PASS_S_MAX
    last_s = gauge(server, "pass_seconds")
    while len(took_s) < count:
        if time.monotonic() > until_s:
            raise RuntimeError("the archive does not keep up")
        time.sleep(0.2)
        now_s = gauge(server, "pass_seconds")
        behind_s = max(behind_s, gauge(server, "behind_seconds"))
        if now_s != last_s:
            took_s.append(now_s)
            last_s = now_s
    return took_s, behind_s


def measure(name: str, server: Server, partitions: int, count: int) -> None:
    """Print one line."""
    with Client.connect(server.address, USERNAME, PASSWORD) as client:
        client.create_stream("s")
        client.create_topic("s", "t", partitions)
    with load(server, partitions):
        passes(server, WARM_UP)
        cpu_s = server.cpu_s()
        took_s, behind_s = passes(server, count)
        cpu_s = server.cpu_s() - cpu_s
    pass_s = median(took_s)
    print(
        f"{name:<8} {partitions} partitions: a pass takes {pass_s:.2f} s, "
        f"{partitions * INTERVAL_S / pass_s:,.0f} partitions in {INTERVAL_S} s; "
        f"behind at most {behind_s:.1f} s; "
        f"CPU of the broker {cpu_s / count / partitions * 1000:.1f} ms a partition and pass",
        flush=True,
    )


def main(partitions: int = 400, count: int = 5) -> None:
    """Both kinds of archives."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = {f"{NAME}DISK_PATH": str(root / "archive")}
        with start_broker(root / "folder", shards=1, settings=SETTINGS | archive) as server:
            measure("folder", server, partitions, count)
        store = stack.enter_context(running_object_store(root / "store"))
        archive = {
            f"{NAME}KIND": "s3",
            f"{NAME}S3_BUCKET": store.common_bucket,
            f"{NAME}S3_KEY_PREFIX": "tails",
            f"{NAME}S3_ENDPOINT": store.endpoint,
            f"{NAME}S3_ACCESS_KEY_ID": ACCESS_KEY,
            f"{NAME}S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with start_broker(root / "bucket", shards=1, settings=SETTINGS | archive) as server:
            measure("bucket", server, partitions, count)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
