"""Writer options → one frozen value. Errors name the option and the way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from iggy_spark import option_values as values_of
from iggy_spark.errors import OptionError
from iggy_spark.login import CLIENT_NAME_DEFAULT, Login, parse_login
from iggy_spark.sending import BATCH_BYTES, BATCH_MESSAGES

BATCH_BYTES_MAX = 64_000_000  # what every broker takes in one request, with room for its head
BATCH_MESSAGES_MAX = 1_000_000
PARTITIONS_MAX = 1000  # Iggy protocol 0.11: of a topic that is made


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Everything a writer needs to know, checked. Durations in milliseconds, sizes in bytes."""

    servers: tuple[str, ...]
    login: Login
    retry_timeout_ms: int
    stream: str | None  # None: the column of that name
    topic: str | None
    partitioning: str  # balanced, key, partition
    key_header: str | None
    batch_bytes: int
    batch_messages: int
    ids: str  # random, deterministic, column
    id_seed: str | None
    create_partitions: int | None  # make a missing topic, with so many partitions
    skip_null_headers: bool


_Parse = Callable[[str, str], Any]

_TABLE: dict[str, tuple[_Parse, Any]] = {
    "servers": (values_of.servers, None),
    "username": (values_of.text, None),
    "password": (values_of.text, None),
    "token": (values_of.text, None),
    "credentialsPath": (values_of.text, None),
    "tls.enabled": (values_of.boolean, False),
    "tls.caPath": (values_of.text, None),
    "tls.serverName": (values_of.text, None),
    "clientName": (values_of.resource_name, CLIENT_NAME_DEFAULT),
    "retryTimeoutMs": (values_of.duration_ms, 120_000),
    "stream": (values_of.resource_name, None),
    "topic": (values_of.resource_name, None),
    "partitioning": (values_of.word("balanced", "key", "partition"), "balanced"),
    "keyHeader": (values_of.resource_name, None),
    "batchBytes": (values_of.size(1, 1 << 30), BATCH_BYTES),
    "batchMessages": (values_of.number(1, BATCH_MESSAGES_MAX), BATCH_MESSAGES),
    "ids": (values_of.word("random", "deterministic", "column"), "random"),
    "idSeed": (values_of.text, None),
    "createTopic": (values_of.boolean, False),
    "partitionsCount": (values_of.number(1, PARTITIONS_MAX), None),
    "headers.nullValue": (values_of.word("skip", "fail"), "skip"),
}
_BY_NAME = {name.lower(): name for name in _TABLE}

_SPARKS = frozenset(("checkpointlocation",))  # options of Spark's own, handed over with ours

_REFUSED = {
    "ack": "sending has no levels of acknowledgement: every request is acknowledged as the "
    "topic's durability says; leave it out, and set durability on the topic",
    "path": "a topic has no path: use save() or start() without one, with stream and topic",
}


def parse(raw: Mapping[str, str]) -> WriteOptions:
    """Check options of a write.

    Raises:
        OptionError: an option is unknown, wrong, missing, or without the one that it needs.
    """
    given = {name.lower(): value for name, value in raw.items() if name.lower() not in _SPARKS}
    for name in given:
        _check_name(name)
    values = {
        name: default if name.lower() not in given else parse_text(name, given[name.lower()])
        for name, (parse_text, default) in _TABLE.items()
    }
    if values["servers"] is None:
        raise OptionError('servers is missing: add .option("servers", …)')
    if values["batchBytes"] > BATCH_BYTES_MAX:
        given_size = given["batchbytes"]
        raise values_of.fail("batchBytes", given_size, f"at most {BATCH_BYTES_MAX} bytes")
    if values["idSeed"] is not None and values["ids"] != "deterministic":
        raise OptionError("idSeed needs ids=deterministic: set it, or leave this out")
    return WriteOptions(
        servers=values["servers"],
        login=parse_login(values),
        retry_timeout_ms=values["retryTimeoutMs"],
        stream=values["stream"],
        topic=values["topic"],
        partitioning=values["partitioning"],
        key_header=values["keyHeader"],
        batch_bytes=values["batchBytes"],
        batch_messages=values["batchMessages"],
        ids=values["ids"],
        id_seed=values["idSeed"],
        create_partitions=_create_partitions(values),
        skip_null_headers=values["headers.nullValue"] == "skip",
    )


def _check_name(name: str) -> None:
    if name in _REFUSED:
        raise OptionError(f"{name}: {_REFUSED[name]}")
    if name in _BY_NAME:
        return
    raise values_of.unknown(name, _BY_NAME, of="writing with format iggy")


def _create_partitions(values: Mapping[str, Any]) -> int | None:
    count: int | None = values["partitionsCount"]
    if values["createTopic"] and count is None:
        raise OptionError("createTopic needs partitionsCount: how many shall a new topic have?")
    if count is not None and not values["createTopic"]:
        raise OptionError("partitionsCount needs createTopic=true: set it, or leave this out")
    return count
