"""Reader options → one frozen value. Errors name the option and the way out.

Spark hands options over as strings in a case-insensitive map, so names are compared in lower case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from iggy_spark import offsets
from iggy_spark.errors import OptionError
from iggy_spark.payload import FORMATS, OPTION_NAMES, Payload
from iggy_spark.payload import parse as parse_payload

MAX_OFFSETS_PER_TRIGGER_DEFAULT = 1_000_000  # an unbounded first batch is the classic crash
MIN_PARTITIONS_MAX = 100_000  # tasks of one batch that minPartitions may ask for
SERVERS_MAX = 64
FETCH_MESSAGES_MAX = 1_000_000
BYTES_MAX = 1 << 30
NAME_BYTES_MAX = 255  # Iggy protocol 0.11: names have 1 to 255 bytes
PORT_MAX = 65535

COLUMNS = ("stream", "topic", "partition", "offset", "timestamp", "origin_timestamp", "id")

Start = str | Mapping[int, int]  # "earliest", "latest", "committed", or positions per partition


@dataclass(frozen=True, slots=True)
class Login:
    """Who reads. The password never shows in a representation."""

    username: str | None
    password: str | None = field(repr=False)
    credentials_path: str | None

    def read(self) -> tuple[str, str]:
        """User name and password. A folder is read anew each time: rotation needs no restart.

        Raises:
            OptionError: a file of `credentialsPath` cannot be read.
        """
        if self.credentials_path is None:
            assert self.username is not None
            assert self.password is not None
            return self.username, self.password
        folder = Path(self.credentials_path)
        try:
            name = (folder / "username").read_text("utf-8").strip()
            return name, (folder / "password").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"credentialsPath: {folder} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything a reader needs to know, checked. Durations in milliseconds, sizes in bytes."""

    servers: tuple[str, ...]
    login: Login
    stream: str
    topic: str
    starting_offsets: Start
    ending_offsets: Start
    max_offsets_per_trigger: int  # 0: no limit
    min_partitions: int | None
    consumer_group: str | None
    offset_mirror: str  # auto, off, required
    poll_interval_ms: int
    retry_timeout_ms: int
    fetch_bytes: int
    fetch_messages: int
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    on_topic_recreated: str  # fail, restart
    verify_checksum: bool
    payload: Payload
    state_location: str | None
    unsafe_moving_start: bool

    @property
    def topic_name(self) -> str:
        """The topic as offsets and messages name it: "stream/topic"."""
        return f"{self.stream}/{self.topic}"


def _fail(name: str, value: str, expected: str) -> OptionError:
    return OptionError(f"{name}={value!r} is not valid: use {expected}")


def _text(name: str, value: str) -> str:
    if not value:
        raise _fail(name, value, "a text that is not empty")
    return value


def _name(name: str, value: str) -> str:
    if not 1 <= len(value.encode()) <= NAME_BYTES_MAX:
        raise _fail(name, value, "a name of 1 to 255 bytes")
    return value


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _fail(name, value, "true or false")
    return value.lower() == "true"


def _word(*words: str) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        if value.lower() not in words:
            raise _fail(name, value, f"one of {', '.join(words)}")
        return value.lower()

    return parse


def _number(low: int, high: int) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", value) or not low <= int(value) <= high:
            raise _fail(name, value, f"a whole number from {low} to {high}")
        return int(value)

    return parse


_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(name: str, value: str) -> int:
    """`500ms`, `10s`, `5m`, `1h30m`, or plain milliseconds.

    Raises:
        OptionError: anything else, or more than 365 days.
    """
    parts = re.findall(r"([0-9]{1,12})(ms|[smhd]|)", value)
    if (
        not parts
        or "".join(map("".join, parts)) != value
        or ("" in dict(parts).values() and parts[1:])
    ):
        raise _fail(name, value, "a duration such as 500ms, 10s or 5m")
    duration_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in parts)
    if duration_ms > 365 * _UNITS_MS["d"]:
        raise _fail(name, value, "at most 365d")
    return duration_ms


_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def _size(name: str, value: str) -> int:
    hit = re.fullmatch(r"([0-9]{1,12}) ?([kmg]ib|b|)", value.lower())
    size = int(hit[1]) * _SIZES[hit[2]] if hit else 0
    if not 1 <= size <= BYTES_MAX:
        raise _fail(name, value, "a size such as 65536 or 4MiB, at most 1GiB")
    return size


def _servers(name: str, value: str) -> tuple[str, ...]:
    servers = tuple(part.strip() for part in value.split(","))
    if len(servers) > SERVERS_MAX:
        raise _fail(name, value, f"at most {SERVERS_MAX} servers")
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
            raise _fail(name, value, "host:port, with commas between several")
    return servers


def _start(name: str, value: str) -> Any:
    if value.lower() in ("earliest", "latest", "committed"):
        return value.lower()
    try:
        return json.loads(value)
    except ValueError:
        expected = 'earliest, latest, committed, or JSON such as {"0": 23, "1": -2}'
        raise _fail(name, value, expected) from None


def _columns(name: str, value: str) -> tuple[str, ...]:
    columns = tuple(part.strip().lower() for part in value.split(","))
    if len(set(columns)) != len(columns):
        raise _fail(name, value, "each column once")
    return columns


@dataclass(frozen=True, slots=True)
class _Option:
    """One row of the table: how the text is read, what holds without it, where it may be used."""

    name: str
    parse: Callable[[str, str], Any]
    default: Any = None
    mode: str = "both"  # both, batch, stream


_TABLE = (
    _Option("servers", _servers),
    _Option("username", _text),
    _Option("password", _text),
    _Option("credentialsPath", _text),
    _Option("stream", _name),
    _Option("topic", _name),
    _Option("startingOffsets", _start),
    _Option("endingOffsets", _start, "latest", mode="batch"),
    _Option(
        "maxOffsetsPerTrigger",
        _number(0, 10**15),
        MAX_OFFSETS_PER_TRIGGER_DEFAULT,
        mode="stream",
    ),
    _Option("minPartitions", _number(1, MIN_PARTITIONS_MAX)),
    _Option("consumerGroup", _name),
    _Option("offsetMirror", _word("auto", "off", "required"), "auto", mode="stream"),
    _Option("pollIntervalMs", parse_duration_ms, 200, mode="stream"),
    _Option("retryTimeoutMs", parse_duration_ms, 120_000),
    _Option("fetchBytes", _size, 4 << 20),
    _Option("fetchMessages", _number(1, FETCH_MESSAGES_MAX), 10_000),
    _Option("columns", _columns),
    _Option("failOnDataLoss", _boolean, True),
    _Option("onTopicRecreated", _word("fail", "restart"), "fail", mode="stream"),
    _Option("verifyChecksum", _boolean, True),
    _Option("payloadFormat", _word(*FORMATS), "raw"),
    _Option("payloadSchema", _text),
    _Option("onDecodeError", _word("fail", "keep"), "fail"),
    _Option("stateLocation", _text, mode="stream"),
    _Option("unsafeMovingStart", _boolean, False, mode="stream"),
)
_BY_NAME = {option.name.lower(): option for option in _TABLE}

# Named so that the error can say "not in this version" instead of "unknown".
_PLANNED = frozenset(
    name.lower()
    for name in (
        "token", "tls.enabled", "tls.caPath", "tls.serverName", "subscribe", "subscribePattern",
        "assign", "startingTimestamp", "startingOffsetsByTimestamp", "endingTimestamp",
        "startingOffsetsByTimestampStrategy", "endingOffsetsByTimestamp", "maxBytesPerTrigger",
        "minOffsetsPerTrigger", "maxTriggerDelay", "includeHeaders",
        "archivePath", "archiveMode", "archive.endpoint", "archive.region", "archive.pathStyle",
        "archive.credentialsPath", "transforms", "filterPushdown", "clientName", "arrowBatchBytes",
    )
)  # fmt: skip


def check_names(raw: Mapping[str, str]) -> None:
    """Refuse what is not an option.

    Raises:
        OptionError: the message holds the unknown name and the nearest known one.
    """
    for name in raw:
        key = name.lower()
        if key in _PLANNED:
            raise OptionError(f"{name} is planned but not in this version: leave it out")
        if key in _BY_NAME:
            continue
        near = get_close_matches(key, _BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {_BY_NAME[near[0]].name}?" if near else "see the list of options"
        raise OptionError(f"{name} is not an option of format iggy: {hint}")


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
    for required in ("servers", "stream", "topic"):
        if values[required] is None:
            raise OptionError(f'{required} is missing: add .option("{required}", …)')
    starting, ending = _start_and_end(values, mode)
    return ReadOptions(
        servers=values["servers"],
        login=_login(values),
        stream=values["stream"],
        topic=values["topic"],
        starting_offsets=starting,
        ending_offsets=ending,
        max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
        min_partitions=values["minPartitions"],
        consumer_group=values["consumerGroup"],
        offset_mirror=_mirror(values),
        poll_interval_ms=values["pollIntervalMs"],
        retry_timeout_ms=values["retryTimeoutMs"],
        fetch_bytes=values["fetchBytes"],
        fetch_messages=values["fetchMessages"],
        columns=_selected(values),
        fail_on_data_loss=values["failOnDataLoss"],
        on_topic_recreated=values["onTopicRecreated"],
        verify_checksum=values["verifyChecksum"],
        payload=parse_payload(
            values["payloadFormat"],
            values["payloadSchema"],
            on_error=values["onDecodeError"],
            names=OPTION_NAMES,
        ),
        state_location=values["stateLocation"],
        unsafe_moving_start=values["unsafeMovingStart"],
    )


def _login(values: Mapping[str, Any]) -> Login:
    path, username, password = (values[k] for k in ("credentialsPath", "username", "password"))
    if path is None and (username is None or password is None):
        raise OptionError(
            "username and password, or credentialsPath, are missing: the broker wants a login"
        )
    if path is not None and (username is not None or password is not None):
        raise OptionError("credentialsPath and username/password exclude each other: keep one")
    return Login(username, password, path)


def _start_and_end(values: Mapping[str, Any], mode: str | None) -> tuple[Start, Start]:
    starting = values["startingOffsets"]
    if starting is None:
        starting = "latest" if mode == "stream" else "earliest"
    ending = values["endingOffsets"]
    topic = f"{values['stream']}/{values['topic']}"
    if not isinstance(starting, str):
        starting = offsets.parse_positions(starting, option="startingOffsets", topic=topic)
    if not isinstance(ending, str):
        ending = offsets.parse_positions(ending, option="endingOffsets", topic=topic)
    marks = set(starting.values()) if not isinstance(starting, str) else {starting}
    if mode == "batch" and marks & {"latest", offsets.LATEST}:
        raise OptionError("startingOffsets=latest would read nothing in a batch: use earliest")
    if marks & {"committed", offsets.COMMITTED} and values["consumerGroup"] is None:
        raise OptionError("startingOffsets=committed needs consumerGroup: whose offsets are meant?")
    end_marks = set(ending.values()) if not isinstance(ending, str) else {ending}
    if end_marks & {"earliest", "committed", offsets.EARLIEST, offsets.COMMITTED}:
        raise OptionError("endingOffsets must be latest or offsets: an end at the start is empty")
    return starting, ending


def _mirror(values: Mapping[str, Any]) -> str:
    mirror: str = values["offsetMirror"]
    if mirror == "required" and values["consumerGroup"] is None:
        raise OptionError("offsetMirror=required needs consumerGroup: under which name?")
    return mirror if values["consumerGroup"] is not None else "off"


def _selected(values: Mapping[str, Any]) -> tuple[str, ...]:
    decoded = ("value", "error") if values["payloadFormat"] != "raw" else ()
    columns = values["columns"] or (*COLUMNS, "payload", *decoded)
    return check_columns(columns, values["payloadFormat"])


def check_columns(columns: Sequence[str], payload_format: str) -> tuple[str, ...]:
    """The columns, if all exist with this payload format.

    Raises:
        OptionError: one does not.
    """
    possible = (*COLUMNS, "payload", *(("value", "error") if payload_format != "raw" else ()))
    for column in columns:
        if column not in possible:
            extra = "; value and error need a payloadFormat" if column in ("value", "error") else ""
            raise OptionError(
                f"columns: {column!r} does not exist, choose from {', '.join(possible)}{extra}"
            )
    return tuple(columns)
