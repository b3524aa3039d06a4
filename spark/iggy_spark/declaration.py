"""What a job was declared as, written beside its checkpoint: some changes would mix data."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import structs

from iggy_spark import schema, source_config
from iggy_spark.errors import OptionError
from iggy_spark.job_config import BLOCKS, JobConfig, SinkSpec
from iggy_spark.job_parts import JobFile
from iggy_spark.source_config import SourceConfig

_SINK, _SOURCE = "sink.json", "source.json"
NAMES: Final = (_SINK, _SOURCE)
"""Files, one for each kind of job."""

# Fields of a source's block without which its positions, or the ids of messages, are others.
_FIXED: Final = {
    "postgres": ("mode", "slot", "cursor_column", "key_columns"),
    "files": ("path", "format"),
    "http": ("items", "cursor", "id_path"),
    "random": ("seed", "keys", "payload_bytes"),
}


def of(config: JobFile) -> tuple[str, dict[str, Any]]:
    """The name of the file, and what it holds."""
    if isinstance(config, SourceConfig):
        return _SOURCE, _source(config)
    assert isinstance(config, JobConfig), "there are two kinds"
    return _SINK, _sink(config)


def _sink(config: JobConfig) -> dict[str, Any]:
    files = config.sink.files
    return {
        "sink": config.name,
        "type": config.sink.type,
        "stream": config.stream,
        "topic": config.topic,
        "path": files.path if files else None,
        "partitionBy": files.partition_by if files else [],
        "target": _target(config.sink),
        "payloadFormat": config.sink.payload.format,
        "fields": {item.name: schema.to_ddl(item.type) for item in config.payload.fields},
    }


def _target(sink: SinkSpec) -> list[str]:
    """Where another place would be another target."""
    block = getattr(sink, BLOCKS[sink.type] or "", None)
    names = ("path", "table", "database", "collection", "index", "stream", "topic")
    return [f"{name}: {getattr(block, name)}" for name in names if hasattr(block, name)]


def check_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Compare with the declaration of an earlier start.

    Raises:
        OptionError: a change that would mix different data; it names the field.
    """
    if "source" in now:
        _check_source(before, now)
    else:
        _check_sink(before, now)


def _check_sink(before: dict[str, Any], now: dict[str, Any]) -> None:
    _check_owner(before, now)
    names = {
        "type": "sink.type",
        "stream": "stream",
        "topic": "topic",
        "path": "sink.files.path",
        "target": f"sink.{BLOCKS.get(now['type']) or 'type'}",
        "partitionBy": "sink.files.partitionBy",
        "payloadFormat": "sink.payload.format",
    }
    for key, name in names.items():
        if before.get(key, now[key]) != now[key]:
            raise OptionError(
                f"{name}: was {before[key]!r} and is {now[key]!r}: this sink has written with the "
                "old one, give the new one a sink of its own"
            )
    for field, kind in now["fields"].items():
        old = before["fields"].get(field, kind)
        if old != kind:
            raise OptionError(
                f"sink.payload.schema: field {field!r} was {old} and is {kind}: "
                "rows of both do not go together, add a field of another name or give the "
                "new schema a sink of its own"
            )


def _source(config: SourceConfig) -> dict[str, Any]:
    field = source_config.BLOCKS[config.source.type]
    block = getattr(config.source, field)
    names = set(_FIXED[field])
    if getattr(block, "mode", None) == "Polling":
        names.add("tables")
    fixed = {
        item.encode_name: msgspec.to_builtins(getattr(block, item.name))
        for item in structs.fields(block)
        if item.name in names
    }
    return {
        "source": config.name,
        "type": config.source.type,
        "stream": config.stream,
        "topic": config.topic,
        "fixed": fixed,
    }


def _check_source(before: dict[str, Any], now: dict[str, Any]) -> None:
    _check_owner(before, now)
    for name, field in (("type", "source.type"), ("stream", "stream"), ("topic", "topic")):
        _check_same(field, before.get(name), now[name])
    block = source_config.BLOCKS[now["type"]]
    for name, value in now["fixed"].items():
        _check_same(f"source.{block}.{name}", before["fixed"].get(name, value), value)


def _check_same(field: str, before: Any, now: Any) -> None:
    if before != now:
        raise OptionError(
            f"{field}: was {before!r} and is {now!r}: this source has read with the old one, give "
            "the new one a source of its own"
        )


def _check_owner(before: dict[str, Any], now: dict[str, Any]) -> None:
    kind = "source" if "source" in now else "sink"
    other = "sink" if "sink" in before else "source" if "source" in before else kind
    if other != kind or before.get(kind, now[kind]) != now[kind]:
        raise OptionError(
            f"checkpoint: it belongs to the {other} {before[other]!r}: give {now[kind]!r} a place "
            "of its own"
        )
