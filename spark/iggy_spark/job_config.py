"""The sink job's file: JSON → frozen values. Errors name the field; unknown fields are refused.

The sink's fields are those of IggySink and of a topic's `sinks[]` in the Kubernetes resources, so
that one file describes a sink wherever it runs. Secrets come from the environment, under the names
that the file gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from iggy_spark import blocks, job_parts
from iggy_spark import payload as declared
from iggy_spark.blocks import Name, Part, Redrive
from iggy_spark.errors import OptionError
from iggy_spark.job_parts import JobFile, Retried, Spec, check_place
from iggy_spark.option_values import instant_us

TIME_US_MAX = 1 << 63  # after all times of messages

# Type → the field that it needs. Console can do without its own.
BLOCKS = {
    "Files": "files",
    "Iceberg": "iceberg",
    "Delta": "delta",
    "Jdbc": "jdbc",
    "Elasticsearch": "elasticsearch",
    "Quickwit": "quickwit",
    "ClickHouse": "clickhouse",
    "Mongo": "mongo",
    "Http": "http",
    "Iggy": "iggy",
    "Custom": "custom",
    "Console": None,
}

SPLITTING = ("Files", "Iceberg", "Delta", "Custom")
"""Types that write several ranges of one partition at a time. The others take each partition in
order, or keep a place in it that only moves on.
"""
TASKS_MAX = 1000  # of a batch, which `minPartitions` may ask for


class Payload(Part, frozen=True):
    """What the messages hold; see `payload`. `columns` goes with Avro and Protobuf."""

    format: str = "Raw"
    schema: str | None = None
    columns: str | None = None


class DeadLetter(Part, frozen=True):
    """The topic that bad messages go to; without `stream` in the stream of the topic read."""

    topic: Name
    stream: Name | None = None
    max_per_batch: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    max_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05


class Errors(Retried, frozen=True, kw_only=True):
    """None: a message that cannot be written stops the job. Data: it is set aside."""

    tolerance: Literal["None", "Data"] = "None"
    dead_letter: DeadLetter | None = None


class Metrics(Part, frozen=True):
    """What the job's figures show beyond those that every sink has."""

    per_partition: bool = False


class SinkSpec(Spec, frozen=True, kw_only=True):
    """One sink."""

    files: blocks.Files | None = None
    iceberg: blocks.Iceberg | None = None
    delta: blocks.Delta | None = None
    jdbc: blocks.Jdbc | None = None
    elasticsearch: blocks.Elasticsearch | None = None
    quickwit: blocks.Quickwit | None = None
    clickhouse: blocks.ClickHouse | None = None
    mongo: blocks.Mongo | None = None
    http: blocks.Http | None = None
    iggy: blocks.IggyCopy | None = None
    custom: blocks.Custom | None = None
    console: blocks.Console | None = None
    payload: Payload = Payload()
    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    max_offsets_per_trigger: Annotated[int, msgspec.Meta(ge=1)] | None = None
    min_partitions: Annotated[int, msgspec.Meta(ge=1, le=TASKS_MAX)] | None = None
    on_topic_recreated: Literal["Pause", "Restart"] = "Pause"
    delivery: Literal["AtLeastOnce", "ExactlyOnce"] | None = None
    transforms: list[Any] | dict[str, Any] = []  # noqa: RUF012
    errors: Errors = Errors()
    fail_on_data_loss: bool = True
    metrics: Metrics = Metrics()
    lag: Any = None  # read by whoever starts the job


class JobConfig(JobFile, frozen=True, kw_only=True):
    """The whole file."""

    what = "sink"

    sink: SinkSpec
    uid: Name | None = None
    """What tells the sink from an earlier one of its name, where somebody knows; dead letters have
    it.
    """
    redrive: Redrive | None = None
    """Dead letters that are to be written again before the job goes on."""

    @property
    def spec(self) -> SinkSpec:
        """The sink."""
        return self.sink

    @cached_property
    def payload(self) -> declared.Payload:
        """The payload as the data source knows it.

        Raises:
            OptionError: payload and transforms are wrong, or do not go together.
        """
        sink = self.sink
        return declared.parse(
            sink.payload.format,
            sink.payload.schema,
            sink.transforms,
            columns=sink.payload.columns,
            on_error="keep" if sink.errors.tolerance == "Data" else "fail",
            names=declared.JOB_NAMES,
        )


def load(path: Path) -> JobConfig:
    """Read and check a job file.

    Raises:
        OptionError: the file or a field is wrong; the message names it.
    """
    return parse(job_parts.read(path), name=str(path))


def parse(data: bytes, *, name: str) -> JobConfig:
    """Check the content of a job file, which `name` stands for in errors. Starts no Spark.

    Raises:
        OptionError: a field is wrong; the message names it.
    """
    config = job_parts.decode(data, JobConfig, name=name)
    _check(config)
    return config


def _check(config: JobConfig) -> None:
    job_parts.check_common(config)
    job_parts.check_block("sink", config.sink, BLOCKS)
    if config.sink.console is not None and config.sink.type != "Console":
        raise OptionError("sink.console: goes with type Console")
    if config.sink.files is not None:
        _check_files(config.sink.files)
    if config.sink.delta is not None:
        check_place(
            "sink.delta.path", config.sink.delta.path, store=("sink.delta.s3", config.sink.delta.s3)
        )
    _check_behaviour(config)


def redrive_times(request: Redrive) -> range:
    """When the broker took the messages of the letters that are wanted, microseconds since 1970.

    Raises:
        OptionError: a time is none.
    """
    since = None if request.since is None else instant_us("redrive.from", request.since)
    until = None if request.until is None else instant_us("redrive.to", request.until)
    return range(0 if since is None else since, TIME_US_MAX if until is None else until)


def _check_files(files: blocks.Files) -> None:
    check_place("sink.files.path", files.path, store=("sink.files.s3", files.s3))


def _check_behaviour(config: JobConfig) -> None:
    errors = config.sink.errors
    if config.sink.min_partitions is not None and config.sink.type not in SPLITTING:
        raise OptionError(
            f"sink.minPartitions: goes with types {', '.join(SPLITTING)}; {config.sink.type} takes "
            "each partition in order: give the topic more partitions"
        )
    if errors.tolerance == "Data" and errors.dead_letter is None and config.sink.type != "Files":
        raise OptionError(
            "sink.errors.tolerance: Data needs errors.deadLetter, the topic for bad messages; type "
            "Files alone keeps them in the folder _rejected"
        )
    if config.redrive is not None and errors.dead_letter is None:
        raise OptionError("redrive: goes with sink.errors.deadLetter: where are the letters?")
    if config.redrive is not None and not redrive_times(config.redrive):
        raise OptionError("redrive.from: must be before redrive.to")
    if errors.dead_letter is not None and errors.tolerance != "Data":
        raise OptionError("sink.errors.deadLetter: goes with tolerance: Data")
    for item in config.payload.fields:
        name = item.name.lower()
        if name.startswith("iggy_") and name not in declared.METADATA_NAMES:
            raise OptionError(
                f"sink.payload.schema: field {item.name!r}: names that start with iggy_ are ours, "
                f"but for {', '.join(declared.METADATA_NAMES)}"
            )


def reader_options(config: JobConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The data source's options for this job. The payload is not among them: see `payload`.

    Raises:
        OptionError: an environment variable of the login is missing.
    """
    sink = config.sink
    found = {
        **job_parts.topic_options(config, environ),
        "startingOffsets": sink.starting_offsets.lower(),
        "consumerGroup": config.name,
        "failOnDataLoss": str(sink.fail_on_data_loss).lower(),
    }
    if sink.max_offsets_per_trigger is not None:
        found["maxOffsetsPerTrigger"] = str(sink.max_offsets_per_trigger)
    if sink.min_partitions is not None:
        found["minPartitions"] = str(sink.min_partitions)
    return found
