"""The jobs of the sample with two targets, as `iggykube up` has them, over a test's own broker."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import broker_copies
import stored
from broker_process import BrokerProcess
from iggy_spark.stop import Stop
from iggykube.local import Folders, Ports, load_resources
from iggykube.local.apply import apply_plan
from iggykube.local.plan import make_plan
from iggykube.local.secrets import write_secrets
from iggykube.local.state import State
from sink_jobs import LOGIN, Setup
from twin_targets import Place, Row, Targets, bad_order, difference, order, row_of, sample_for

PARTITIONS: Final = 2  # of the sample, and all else that is written in capitals or quotes here
STREAM, TOPIC = "shop", "orders"
ROWS: Final = 40  # of each partition, each time


class PlannedJob(Setup):
    """A job of a local instance."""

    def __init__(self, folder: Path, job: Mapping[str, Any]) -> None:
        """`folder` is for its file."""
        self.value = {**job, "once": True}
        self.checkpoint = Path(job["checkpoint"])
        self.file = folder / f"{job['name']}.json"
        self.login = LOGIN
        self.stop = Stop(signals=False)


class TwinJobs:
    """Broker, both targets, the two jobs, and what the broker has acknowledged."""

    def __init__(self, broker: BrokerProcess, targets: Targets, folder: Path) -> None:
        """Makes the topic."""
        self.broker, self.targets, self.folder = broker, targets, folder
        self.wanted: dict[Place, bytes] = {}
        self._numbers, self._copies = count(), count()
        file = folder / "sample.yaml"
        file.write_text(sample_for(targets.store, targets.postgres))
        data = folder / "instance"
        resources, folders = load_resources(data, [file]), Folders.at(data)
        folders.create()
        plan = make_plan(resources, folders, Ports(broker.tcp_port, 0))
        write_secrets(folders, list(plan.secrets))
        self.jobs = {
            item.connector.key.name.rpartition(".")[2]: PlannedJob(folder, item.job)
            for item in plan.jobs
        }
        with broker.client() as client:
            apply_plan(client, plan, State())

    def send(self, rows: int = ROWS, *, is_kept: bool = True) -> None:
        """So many to each partition, the last one bad. Of others nobody expects anything."""
        for partition in range(PARTITIONS):
            numbers = [next(self._numbers) for _ in range(rows)]
            payloads = [*map(order, numbers[:-1]), bad_order(numbers[-1])]
            self._send(partition, payloads, is_kept=is_kept)

    def send_again(self, lost: Mapping[Place, bytes]) -> None:
        """What producers have, and the broker has not any more."""
        for partition in range(PARTITIONS):
            payloads = [payload for (number, _), payload in lost.items() if number == partition]
            self._send(partition, payloads)

    def _send(self, partition: int, payloads: list[bytes], *, is_kept: bool = True) -> None:
        with self.broker.client() as client:
            at = stored.send(client, STREAM, TOPIC, *payloads, partition=partition)
        if is_kept:
            found = {(partition, at + n): payload for n, payload in enumerate(payloads)}
            assert not found.keys() & self.wanted.keys()
            self.wanted |= found

    def forget(self, lost: Mapping[Place, bytes]) -> None:
        """Nobody expects these at their places any more."""
        self.wanted = {place: at for place, at in self.wanted.items() if place not in lost}

    def run(self, spark: SparkSession) -> None:
        """Both jobs, until nothing is left."""
        for job in self.jobs.values():
            job.run(spark)

    def ends(self) -> dict[int, int]:
        """One past the last message of each partition."""
        return {
            number: 1 + max(offset for place, offset in self.wanted if place == number)
            for number in range(PARTITIONS)
        }

    def rows(self) -> list[Row]:
        """What each target should hold."""
        found = (row_of(*place, payload) for place, payload in self.wanted.items())
        return sorted(row for row in found if row is not None)

    def bad(self) -> set[bytes]:
        """The messages that no target can hold."""
        found = self.wanted.items()
        return {payload for place, payload in found if row_of(*place, payload) is None}

    def differences(self) -> dict[str, str]:
        """Of each target to what it should hold."""
        wanted = self.rows()
        found = {"lake": self.targets.lake(), "table": self.targets.table()}
        return {name: difference(rows, wanted) for name, rows in found.items()}

    def letters(self) -> dict[str, set[bytes]]:
        """The messages that each job has set aside. A crash may repeat one."""
        with self.broker.client() as client:
            return {
                name: set(stored.read_all(client, STREAM, f"{TOPIC}.{name}.dead"))
                for name in self.jobs
            }

    def copy(self) -> Path:
        """Of the broker as it is."""
        return broker_copies.taken(self.broker, self.folder / f"copy{next(self._copies)}")
