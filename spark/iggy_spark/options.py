"""Reader options → one frozen value. Errors name the option and the way out.

Spark hands options over as strings in a case-insensitive map, so names are compared in lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iggy_spark import archive_options, points, selection
from iggy_spark import option_values as values_of
from iggy_spark.archive_options import ArchiveOptions
from iggy_spark.errors import OptionError
from iggy_spark.login import CLIENT_NAME_DEFAULT, Login, parse_login
from iggy_spark.payload import FORMATS, ON_ERROR, OPTION_NAMES, Payload
from iggy_spark.payload import parse as parse_payload
from iggy_spark.payload import parse_text as parse_transforms
from iggy_spark.points import Point
from iggy_spark.selection import Selection, TopicName

MAX_OFFSETS_PER_TRIGGER_DEFAULT = 1_000_000  # an unbounded first batch is the classic crash
MAX_BYTES_PER_TRIGGER_DEFAULT = 1 << 30
OFFSETS_PER_TRIGGER_MAX = 10**15
TRIGGER_BYTES_MAX = 1 << 40
MIN_PARTITIONS_MAX = 100_000  # tasks of one batch that minPartitions may ask for
FETCH_MESSAGES_MAX = 1_000_000
BYTES_MAX = 1 << 30  # of one request and one record batch

COLUMNS = ("stream", "topic", "partition", "offset", "timestamp", "origin_timestamp", "id")

parse_duration_ms = values_of.duration_ms


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything a reader needs to know, checked. Durations in milliseconds, sizes in bytes."""

    servers: tuple[str, ...]
    login: Login
    selection: Selection
    starting: Point
    ending: Point
    timestamp_strategy: str  # error, latest
    max_offsets_per_trigger: int  # 0: no limit
    max_bytes_per_trigger: int  # 0: no limit
    min_offsets_per_trigger: int  # 0: a batch whenever there is anything
    max_trigger_delay_ms: int
    min_partitions: int | None
    consumer_group: str | None
    offset_mirror: str  # auto, off, required
    poll_interval_ms: int
    retry_timeout_ms: int
    fetch_bytes: int
    fetch_messages: int
    arrow_batch_bytes: int
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    on_topic_recreated: str  # fail, restart
    verify_checksum: bool
    payload: Payload
    state_location: str | None
    unsafe_moving_start: bool
    filter_pushdown: bool
    archive: ArchiveOptions | None = None

    @property
    def has_broker(self) -> bool:
        """Whether there is a broker to be asked."""
        return self.archive is None or not self.archive.is_all

    @property
    def stream(self) -> str:
        """The stream, of a read of one topic."""
        return self._only.stream

    @property
    def topic(self) -> str:
        """The topic, of a read of one topic."""
        return self._only.topic

    @property
    def topic_name(self) -> str:
        """The topic as offsets and messages name it: "stream/topic"."""
        return str(self._only)

    @property
    def _only(self) -> TopicName:
        only = self.selection.only
        assert only is not None, "whoever handles one topic of several asks `for_topic`"
        return only

    def for_topic(self, name: TopicName) -> ReadOptions:
        """The same for one of the topics."""
        if self.selection.only == name:
            return self
        partitions = {k: v for k, v in self.selection.partitions.items() if k == str(name)}
        return replace(self, selection=Selection((name,), None, partitions))


@dataclass(frozen=True, slots=True)
class _Option:
    """One row of the table: how the text is read, what holds without it, where it may be used."""

    name: str
    parse: Callable[[str, str], Any]
    default: Any = None
    mode: str = "both"  # both, batch, stream


_TABLE = (
    _Option("servers", values_of.servers),
    _Option("username", values_of.text),
    _Option("password", values_of.text),
    _Option("token", values_of.text),
    _Option("credentialsPath", values_of.text),
    _Option("tls.enabled", values_of.boolean, False),
    _Option("tls.caPath", values_of.text),
    _Option("tls.serverName", values_of.text),
    _Option("clientName", values_of.resource_name, CLIENT_NAME_DEFAULT),
    _Option("stream", values_of.resource_name),
    _Option("topic", values_of.resource_name),
    _Option("subscribe", values_of.text),
    _Option("subscribePattern", values_of.text),
    _Option("assign", values_of.text),
    _Option("startingOffsets", values_of.text),
    _Option("startingTimestamp", values_of.instant_us),
    _Option("startingOffsetsByTimestamp", values_of.text),
    _Option("startingOffsetsByTimestampStrategy", values_of.word("error", "latest"), "error"),
    _Option("endingOffsets", values_of.text, "latest", mode="batch"),
    _Option("endingTimestamp", values_of.instant_us, mode="batch"),
    _Option("endingOffsetsByTimestamp", values_of.text, mode="batch"),
    _Option(
        "maxOffsetsPerTrigger",
        values_of.number(0, OFFSETS_PER_TRIGGER_MAX),
        MAX_OFFSETS_PER_TRIGGER_DEFAULT,
        mode="stream",
    ),
    _Option(
        "maxBytesPerTrigger",
        values_of.size(0, TRIGGER_BYTES_MAX),
        MAX_BYTES_PER_TRIGGER_DEFAULT,
        mode="stream",
    ),
    _Option("minOffsetsPerTrigger", values_of.number(0, OFFSETS_PER_TRIGGER_MAX), 0, mode="stream"),
    _Option("maxTriggerDelay", values_of.duration_ms, 900_000, mode="stream"),
    _Option("minPartitions", values_of.number(1, MIN_PARTITIONS_MAX)),
    _Option("consumerGroup", values_of.resource_name),
    _Option("offsetMirror", values_of.word("auto", "off", "required"), "auto", mode="stream"),
    _Option("pollIntervalMs", values_of.duration_ms, 200, mode="stream"),
    _Option("retryTimeoutMs", values_of.duration_ms, 120_000),
    _Option("fetchBytes", values_of.size(1, BYTES_MAX), 4 << 20),
    _Option("fetchMessages", values_of.number(1, FETCH_MESSAGES_MAX), 10_000),
    _Option("arrowBatchBytes", values_of.size(1, BYTES_MAX), 1 << 20),
    _Option("includeHeaders", values_of.boolean, False),
    _Option("columns", values_of.columns),
    _Option("failOnDataLoss", values_of.boolean, True),
    _Option("onTopicRecreated", values_of.word("fail", "restart"), "fail", mode="stream"),
    _Option("verifyChecksum", values_of.boolean, True),
    _Option("payloadFormat", values_of.word(*FORMATS, "proto"), "raw"),
    _Option("payloadSchema", values_of.text),
    _Option("payloadColumns", values_of.text),
    _Option("transforms", parse_transforms),
    _Option("onDecodeError", values_of.word(*ON_ERROR), "fail"),
    _Option("stateLocation", values_of.text, mode="stream"),
    _Option("unsafeMovingStart", values_of.boolean, False, mode="stream"),
    _Option("filterPushdown", values_of.boolean, False, mode="batch"),
    _Option("archivePath", values_of.text),
    _Option("archiveMode", values_of.word(*archive_options.MODES), "auto"),
    _Option("archive.endpoint", values_of.text),
    _Option("archive.region", values_of.text),
    _Option("archive.pathStyle", values_of.boolean),
    _Option("archive.credentialsPath", values_of.text),
    _Option("archive.keysPath", values_of.text),
    _Option("archive.incarnation", archive_options.life),
)
_NAMES = {option.name.lower(): option.name for option in _TABLE}


def check_names(raw: Mapping[str, str]) -> None:
    """Refuse what is not an option.

    Raises:
        OptionError: the message holds the unknown name and the nearest known one.
    """
    for name in raw:
        if name.lower() not in _NAMES:
            raise values_of.unknown(name, _NAMES, of="format iggy")


def parse(raw: Mapping[str, str], *, mode: str | None) -> ReadOptions:
    """Check options for a "batch" or "stream" read; None checks what does not depend on it.

    Raises:
        OptionError: an option is unknown, wrong, missing or used in the wrong kind of read.
    """
    check_names(raw)
    given = {name.lower(): value for name, value in raw.items()}
    values: dict[str, Any] = {}
    for option in _TABLE:
        text = given.get(option.name.lower())
        values[option.name] = option.default if text is None else option.parse(option.name, text)
        if text is not None and mode is not None and option.mode not in ("both", mode):
            raise OptionError(
                f"{option.name} works in {option.mode} reads only: leave it out of this {mode} read"
            )
    archive = archive_options.parse(values)
    asks_broker = archive is None or not archive.is_all
    if values["servers"] is None and asks_broker:
        raise OptionError('servers is missing: add .option("servers", …)')
    chosen = selection.parse(values)
    if archive is not None and archive.life is not None and chosen.only is None:
        raise OptionError("archive.incarnation is of one topic: select it with stream and topic")
    return ReadOptions(
        servers=values["servers"] if asks_broker else (),
        login=parse_login(values) if asks_broker else Login(None, None, None),
        selection=chosen,
        starting=points.starting(values, chosen, mode),
        ending=points.ending(values, chosen),
        timestamp_strategy=values["startingOffsetsByTimestampStrategy"],
        max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
        max_bytes_per_trigger=values["maxBytesPerTrigger"],
        min_offsets_per_trigger=values["minOffsetsPerTrigger"],
        max_trigger_delay_ms=values["maxTriggerDelay"],
        min_partitions=values["minPartitions"],
        consumer_group=values["consumerGroup"],
        offset_mirror=_mirror(values),
        poll_interval_ms=values["pollIntervalMs"],
        retry_timeout_ms=values["retryTimeoutMs"],
        fetch_bytes=values["fetchBytes"],
        fetch_messages=values["fetchMessages"],
        arrow_batch_bytes=values["arrowBatchBytes"],
        columns=_selected(values),
        fail_on_data_loss=values["failOnDataLoss"],
        on_topic_recreated=values["onTopicRecreated"],
        verify_checksum=values["verifyChecksum"],
        payload=parse_payload(
            values["payloadFormat"],
            values["payloadSchema"],
            values["transforms"],
            columns=values["payloadColumns"],
            on_error=values["onDecodeError"],
            names=OPTION_NAMES,
        ),
        state_location=values["stateLocation"],
        unsafe_moving_start=values["unsafeMovingStart"],
        filter_pushdown=values["filterPushdown"],
        archive=archive,
    )


def _mirror(values: Mapping[str, Any]) -> str:
    mirror: str = values["offsetMirror"]
    if mirror == "required" and values["consumerGroup"] is None:
        raise OptionError("offsetMirror=required needs consumerGroup: under which name?")
    return mirror if values["consumerGroup"] is not None else "off"


def _selected(values: Mapping[str, Any]) -> tuple[str, ...]:
    decoded = ("value", "error") if values["payloadFormat"] != "raw" else ()
    columns = values["columns"] or (*COLUMNS, "payload", *decoded)
    if values["includeHeaders"] and "headers" not in columns:
        columns = (*columns, "headers")
    return check_columns(columns, values["payloadFormat"])


def check_columns(columns: Sequence[str], payload_format: str) -> tuple[str, ...]:
    """The columns, if all exist with this payload format.

    Raises:
        OptionError: one does not.
    """
    decoded = ("value", "error") if payload_format != "raw" else ()
    possible = (*COLUMNS, "payload", "headers", *decoded)
    for column in columns:
        if column not in possible:
            extra = "; value and error need a payloadFormat" if column in ("value", "error") else ""
            raise OptionError(
                f"columns: {column!r} does not exist, choose from {', '.join(possible)}{extra}"
            )
    return tuple(columns)
