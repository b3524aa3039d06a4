"""What the files of all jobs have in common, whether they carry a topic into a sink or a source
into a topic: JSON → frozen values. Errors name the field; unknown fields are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from iggy_spark import options, retry, s3
from iggy_spark.blocks import S3, Name, Part, Text
from iggy_spark.errors import OptionError

JOB_FILE_BYTES_MAX = 1 << 20

T = TypeVar("T")


class BrokerTls(Part, frozen=True):
    """How the broker's certificate is checked: see the options `tls.*` of the data source."""

    ca_path: Text | None = None
    server_name: Text | None = None


class Broker(Part, frozen=True):
    """Where the broker is, and where the login: files, or else environment variables."""

    address: Text
    tls: BrokerTls | None = None
    """Without it nothing is encrypted."""
    credentials_path: Text | None = None
    username_env: Text = "IGGY_USERNAME"
    password_env: Text = "IGGY_PASSWORD"


class Trigger(Part, frozen=True):
    """When a batch starts."""

    mode: Literal["ProcessingTime", "AvailableNow"] = "ProcessingTime"
    interval: str = "10s"


class RetryTimes(Part, frozen=True):
    """How long a system that does not answer is asked again."""

    timeout: str = "10m"
    initial_delay: str = "500ms"
    max_delay: str = "30s"


class Retried(Part, frozen=True, kw_only=True):
    """What is done about errors."""

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
    packages: Annotated[list[str], msgspec.Meta(max_length=64)] = []  # noqa: RUF012
    py_files: Any = None
    env: Any = None
    pod_template: Any = None

    @property
    def properties(self) -> dict[str, str]:
        """All that is said to Spark itself."""
        packages = {"spark.jars.packages": ",".join(self.packages)} if self.packages else {}
        return {**packages, **self.conf}


class Spec(Part, frozen=True, kw_only=True):
    """What sinks and sources have in common. Fields that only operator or launcher read are allowed
    and not looked at.
    """

    type: str
    trigger: Trigger = Trigger()
    errors: Retried = Retried()
    spark: Spark = Spark()
    # Read by whoever starts the job.
    name: Any = None
    topic_ref: Any = None
    checkpoint: Any = None
    suspend: Any = None
    user_ref: Any = None
    restart: Any = None


class JobFile(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    dict=True,
    rename="camel",
    kw_only=True,
):
    """The file of a job, but for the one field that says what it carries."""

    what: ClassVar[str]
    """That field: sink or source."""

    name: Name
    broker: Broker
    stream: Name
    topic: Name
    checkpoint: Text
    """An absolute folder, or an address such as s3a://bucket/folder."""
    checkpoint_store: S3 = S3()
    """How the store of an address is reached."""
    once: bool = False
    alive_file: Text | None = None
    """Where the job gives a sign of life; see `alive`."""
    metrics_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    """Where Prometheus fetches the job's figures; without it nowhere."""

    @property
    def spec(self) -> Spec:
        """The value of that field."""
        raise NotImplementedError

    @cached_property
    def retry_policy(self) -> retry.Policy:
        """How long the other system is asked again."""
        times = self.spec.errors.retry

        def seconds(field: str, text: str) -> float:
            return options.parse_duration_ms(f"{self.what}.errors.retry.{field}", text) / 1000

        return retry.Policy(
            seconds("timeout", times.timeout),
            seconds("initialDelay", times.initial_delay),
            seconds("maxDelay", times.max_delay),
        )

    @property
    def available_now(self) -> bool:
        """Whether the job ends when it has what was there."""
        return self.once or self.spec.trigger.mode == "AvailableNow"

    @cached_property
    def interval_ms(self) -> int:
        """Time between the starts of two batches."""
        field = f"{self.what}.trigger.interval"
        return options.parse_duration_ms(field, self.spec.trigger.interval)


def read(path: Path) -> bytes:
    """The content of a job file.

    Raises:
        OptionError: it cannot be read, or is too large.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OptionError(f"--config: {path} cannot be read: {error.strerror}") from error
    if len(data) > JOB_FILE_BYTES_MAX:
        raise OptionError(f"{path}: larger than {JOB_FILE_BYTES_MAX} bytes")
    return data


def decode(data: bytes, kind: type[T], *, name: str) -> T:
    """The value of a job file, which `name` stands for in errors.

    Raises:
        OptionError: a field is wrong; the message names it.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OptionError(f"{name}: {error}") from error


def check_common(config: JobFile) -> None:
    """What no type says alone.

    Raises:
        OptionError: the checkpoint's place or a duration is wrong.
    """
    check_place("checkpoint", config.checkpoint, store=("checkpointStore", config.checkpoint_store))
    assert config.interval_ms >= 0
    assert config.retry_policy.timeout_s >= 0


def check_block(what: str, spec: Spec, blocks: Mapping[str, str | None]) -> None:
    """That the block of the type is there, and no other. `blocks`: type → its field, if any.

    Raises:
        OptionError: it is not so.
    """
    if spec.type not in blocks:
        raise OptionError(f"{what}.type: {spec.type} is none of {', '.join(blocks)}")
    wanted = blocks[spec.type]
    for kind, field in blocks.items():
        if field is not None and (getattr(spec, field) is not None) != (field == wanted):
            raise OptionError(f"{what}.{field}: goes with type {kind}, and type {kind} needs it")


def check_place(field: str, value: str, *, store: tuple[str, S3]) -> None:
    """That a field names a folder, or the address of one in a store.

    Raises:
        OptionError: it does not, or `store` is given for a folder.
    """
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


def topic_options(config: JobFile, environ: Mapping[str, str]) -> dict[str, str]:
    """Options of the data source, reading or writing: the broker, its login, and the topic.

    Raises:
        OptionError: an environment variable of the login is missing.
    """
    return {
        **_login(config.broker, environ),
        **_tls(config.broker.tls),
        "servers": config.broker.address,
        "stream": config.stream,
        "topic": config.topic,
    }


def _tls(tls: BrokerTls | None) -> dict[str, str]:
    if tls is None:
        return {}
    given = {"tls.caPath": tls.ca_path, "tls.serverName": tls.server_name}
    return {"tls.enabled": "true", **{name: value for name, value in given.items() if value}}


def _login(broker: Broker, environ: Mapping[str, str]) -> dict[str, str]:
    if broker.credentials_path is not None:
        return {"credentialsPath": broker.credentials_path}  # read anew for each connection
    login = {}
    for option, variable in (("username", broker.username_env), ("password", broker.password_env)):
        if not environ.get(variable):
            raise OptionError(f"broker.{option}Env: environment variable {variable} is not set")
        login[option] = environ[variable]
    return login
