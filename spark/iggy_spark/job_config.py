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

from iggy_spark import blocks, options, retry, s3
from iggy_spark import payload as declared
from iggy_spark.blocks import S3, Name, Part, Redrive, Text
from iggy_spark.errors import OptionError

JOB_FILE_BYTES_MAX = 1 << 20

# Type → its field. A type without a block has none to fill in.
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


class Broker(Part, frozen=True):
    """Where the broker is, and where the login: files, or else environment variables."""

    address: Text
    credentials_path: Text | None = None
    username_env: Text = "IGGY_USERNAME"
    password_env: Text = "IGGY_PASSWORD"


class Payload(Part, frozen=True):
    """What the messages hold; see `payload`. `columns` goes with Avro and Protobuf."""

    format: str = "Raw"
    schema: str | None = None
    columns: str | None = None


class Trigger(Part, frozen=True):
    """When a batch starts."""

    mode: Literal["ProcessingTime", "AvailableNow"] = "ProcessingTime"
    interval: str = "10s"


class DeadLetter(Part, frozen=True):
    """The topic that bad messages go to; without `stream` in the stream of the topic read."""

    topic: Name
    stream: Name | None = None
    max_per_batch: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    max_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05


class RetryTimes(Part, frozen=True):
    """How long a target that does not answer is asked again."""

    timeout: str = "10m"
    initial_delay: str = "500ms"
    max_delay: str = "30s"


class Errors(Part, frozen=True):
    """None: a message that cannot be written stops the job. Data: it is set aside."""

    tolerance: Literal["None", "Data"] = "None"
    dead_letter: DeadLetter | None = None
    retry: RetryTimes = RetryTimes()


class Driver(Part, frozen=True):
    """Size of the driver, which does all work when there are no executors."""

    cores: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    core_limit: str | None = None
    memory: Annotated[str, msgspec.Meta(pattern="^[0-9]+[kKmMgGtT]?$")] = "1g"
    memory_overhead: str | None = None


class Spark(Part, frozen=True):
    """Spark's own settings; the launchers use the rest."""

    driver: Driver = Driver()
    conf: Annotated[dict[str, str], msgspec.Meta(max_length=64)] = {}  # noqa: RUF012
    launcher: Any = None
    version: Any = None
    image: Any = None
    service_account_name: Any = None
    executor: Any = None
    packages: Any = None
    py_files: Any = None
    env: Any = None
    pod_template: Any = None


class SinkSpec(Part, frozen=True):
    """One sink. Fields that only operator or launcher read are allowed and not looked at."""

    type: str
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
    payload: Payload = Payload()
    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    max_offsets_per_trigger: Annotated[int, msgspec.Meta(ge=1)] | None = None
    trigger: Trigger = Trigger()
    on_topic_recreated: Literal["Pause", "Restart"] = "Pause"
    delivery: Literal["AtLeastOnce", "ExactlyOnce"] | None = None
    transforms: list[Any] | dict[str, Any] = []  # noqa: RUF012
    errors: Errors = Errors()
    spark: Spark = Spark()
    fail_on_data_loss: bool = True
    # Read by whoever starts the job.
    name: Any = None
    topic_ref: Any = None
    checkpoint: Any = None
    suspend: Any = None
    user_ref: Any = None
    lag: Any = None
    restart: Any = None


class JobConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, rename="camel"):
    """The whole file."""

    name: Name
    broker: Broker
    stream: Name
    topic: Name
    sink: SinkSpec
    checkpoint: Text
    """An absolute folder, or an address such as s3a://bucket/folder."""
    checkpoint_store: S3 = S3()
    """How the store of an address is reached."""
    once: bool = False
    alive_file: Text | None = None
    """Where the job gives a sign of life; see `alive`."""
    metrics_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    """Where Prometheus fetches the job's figures; without it nowhere."""
    redrive: Redrive | None = None
    """Dead letters that are to be written again before the job goes on."""

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

    @cached_property
    def retry_policy(self) -> retry.Policy:
        """How long the target is asked again."""
        times = self.sink.errors.retry

        def seconds(field: str, text: str) -> float:
            return options.parse_duration_ms(f"sink.errors.retry.{field}", text) / 1000

        return retry.Policy(
            seconds("timeout", times.timeout),
            seconds("initialDelay", times.initial_delay),
            seconds("maxDelay", times.max_delay),
        )

    @property
    def available_now(self) -> bool:
        """Whether the job ends when it has what was there."""
        return self.once or self.sink.trigger.mode == "AvailableNow"

    @cached_property
    def interval_ms(self) -> int:
        """Time between the starts of two batches."""
        return options.parse_duration_ms("sink.trigger.interval", self.sink.trigger.interval)


def load(path: Path) -> JobConfig:
    """Read and check a job file.

    Raises:
        OptionError: the file or a field is wrong; the message names it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OptionError(f"--config: {path} cannot be read: {error.strerror}") from error
    if len(data) > JOB_FILE_BYTES_MAX:
        raise OptionError(f"{path}: larger than {JOB_FILE_BYTES_MAX} bytes")
    return parse(data, name=str(path))


def parse(data: bytes, *, name: str) -> JobConfig:
    """Check the content of a job file, which `name` stands for in errors. Starts no Spark.

    Raises:
        OptionError: a field is wrong; the message names it.
    """
    try:
        config = msgspec.json.decode(data, type=JobConfig)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OptionError(f"{name}: {error}") from error
    _check(config)
    return config


def _check(config: JobConfig) -> None:
    _check_place(
        "checkpoint", config.checkpoint, store=("checkpointStore", config.checkpoint_store)
    )
    _check_block(config.sink)
    if config.sink.files is not None:
        _check_files(config.sink.files)
    if config.sink.delta is not None:
        _check_place(
            "sink.delta.path", config.sink.delta.path, store=("sink.delta.s3", config.sink.delta.s3)
        )
    _check_behaviour(config)


def _check_block(sink: SinkSpec) -> None:
    if sink.type not in BLOCKS:
        raise OptionError(f"sink.type: {sink.type} is none of {', '.join(BLOCKS)}")
    wanted = BLOCKS[sink.type]
    for kind, field in BLOCKS.items():
        if field is not None and (getattr(sink, field) is not None) != (field == wanted):
            raise OptionError(f"sink.{field}: goes with type {kind}, and type {kind} needs it")


def _check_files(files: blocks.Files) -> None:
    _check_place("sink.files.path", files.path, store=("sink.files.s3", files.s3))


def _check_place(field: str, value: str, *, store: tuple[str, S3]) -> None:
    if s3.is_address(value):
        try:
            s3.parse_address(value)
        except ValueError as error:
            raise OptionError(f"{field}: {error}") from error
    elif not Path(value).is_absolute():
        raise OptionError(
            f"{field}: {value!r} must be an absolute path, or an address such as "
            "s3a://bucket/folder"
        )
    elif store[1] != S3():
        raise OptionError(f"{store[0]}: goes with an address such as s3a://bucket/folder")


def _check_behaviour(config: JobConfig) -> None:
    errors = config.sink.errors
    if errors.tolerance == "Data" and errors.dead_letter is None and config.sink.type != "Files":
        raise OptionError(
            "sink.errors.tolerance: Data needs errors.deadLetter, the topic for bad messages; type "
            "Files alone keeps them in the folder _rejected"
        )
    if config.redrive is not None and errors.dead_letter is None:
        raise OptionError("redrive: goes with sink.errors.deadLetter: where are the letters?")
    if errors.dead_letter is not None and errors.tolerance != "Data":
        raise OptionError("sink.errors.deadLetter: goes with tolerance: Data")
    for item in config.payload.fields:
        name = item.name.lower()
        if name.startswith("iggy_") and name not in declared.METADATA_NAMES:
            raise OptionError(
                f"sink.payload.schema: field {item.name!r}: names that start with iggy_ are ours, "
                f"but for {', '.join(declared.METADATA_NAMES)}"
            )
    assert config.interval_ms >= 0
    assert config.retry_policy.timeout_s >= 0


def reader_options(config: JobConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The data source's options for this job. The payload is not among them: see `payload`.

    Raises:
        OptionError: an environment variable of the login is missing.
    """
    sink = config.sink
    found = {
        **_login(config.broker, environ),
        "servers": config.broker.address,
        "stream": config.stream,
        "topic": config.topic,
        "startingOffsets": sink.starting_offsets.lower(),
        "consumerGroup": config.name,
        "failOnDataLoss": str(sink.fail_on_data_loss).lower(),
    }
    if sink.max_offsets_per_trigger is not None:
        found["maxOffsetsPerTrigger"] = str(sink.max_offsets_per_trigger)
    return found


def _login(broker: Broker, environ: Mapping[str, str]) -> dict[str, str]:
    if broker.credentials_path is not None:
        return {"credentialsPath": broker.credentials_path}  # read anew for each connection
    login = {}
    for option, variable in (("username", broker.username_env), ("password", broker.password_env)):
        if not environ.get(variable):
            raise OptionError(f"broker.{option}Env: environment variable {variable} is not set")
        login[option] = environ[variable]
    return login
