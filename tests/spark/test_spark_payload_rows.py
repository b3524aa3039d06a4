"""Payloads and transforms through the source: which messages have a row, and what is in it."""

import datetime as dt
import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from iggy_spark import decode, options, payload, readers
from iggy_spark.errors import BadPayload
from iggy_spark.fetch import RangeFetch
from iggy_spark.offsets import OffsetRange, Offsets
from iggy_spark.sinks.rows import portions, table_fields
from message_columns import messages

if TYPE_CHECKING:
    from conftest import Source, Topic

SENT = [
    b'{"id": "1", "kind": "a"}', b'{"id": "x", "kind": "a"}', b'{"id": "3", "kind": "test"}',
    b"not json", b'{"id": "5"}',
]  # fmt: skip
TRANSFORMS = json.dumps(
    [
        {"filter_messages": {"where": {"field": "kind", "not": {"equals": "test"}}}},
        {"cast_fields": {"fields": [{"key": "id", "to": "integer"}]}},
    ]
)
JSON = {"payloadFormat": "json", "transforms": TRANSFORMS, "columns": "offset,payload,value,error"}


def read(source: readers.IggyStreamReader) -> list[dict[str, Any]]:
    start = source.initialOffset()
    return [
        row
        for task in source.partitions(start, source.latestOffset(start, ReadAllAvailable()))
        for rows in source.read(task)
        for row in rows.to_pylist()
    ]


def test_a_filtered_message_has_no_row_and_an_error_its_stage(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, SENT)

    rows = read(source(**JSON, payloadSchema="id BIGINT", onDecodeError="keep"))

    assert [row["offset"] for row in rows] == [0, 1, 3, 4]
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, None, None, 5]
    assert [row["error"] and (row["error"]["stage"], row["error"]["class"]) for row in rows] == [
        None, ("transform", "TransformError"), ("decode", "MalformedJson"), None,
    ]  # fmt: skip
    assert [row["payload"] for row in rows] == [SENT[at] for at in (0, 1, 3, 4)]


def test_skipped_messages_are_counted_in_the_log(
    topic: "Topic", source: "Source", caplog: pytest.LogCaptureFixture
) -> None:
    topic.send(0, SENT)

    rows = read(source(**{**JSON, "columns": "offset"}, onDecodeError="skip"))

    assert rows == [{"offset": 0}, {"offset": 4}]
    assert (
        "partition 0: 2 messages were skipped, the first because: id: this text is no"
        in caplog.text
    )


def test_the_first_message_that_does_not_fit_stops_the_read(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, SENT)

    with pytest.raises(BadPayload, match=r"offset 1: transforms\[1\]: id: this text is no integer"):
        read(source(**JSON))


def test_a_document_without_a_schema_is_text(topic: "Topic", source: "Source") -> None:
    topic.send(0, [b' {"b": 1, "a": 1.10} ', b"[1]"])
    given = {"payloadFormat": "json", "columns": "value,error", "onDecodeError": "keep"}

    rows = read(source(**given))

    assert rows[0] == {"value": ' {"b": 1, "a": 1.10} ', "error": None}
    assert (rows[1]["value"], rows[1]["error"]["class"]) == (None, "SchemaMismatch")
    declared = payload.parse("json", None, names=payload.OPTION_NAMES)
    assert table_fields(declared)[0].name == "document"


def test_a_sinks_rows_are_transformed_and_what_it_refuses_has_its_place(topic: "Topic") -> None:
    topic.send(0, SENT)
    found = options.parse(
        topic.options(payloadFormat="json", payloadSchema="id INT", onDecodeError="keep",
                      transforms=TRANSFORMS), mode="stream",
    )  # fmt: skip
    incarnation = Offsets.from_json(topic.at(0, 0)).incarnation
    wanted = OffsetRange(incarnation, 0, 0, len(SENT))

    (portion,) = portions(found, RangeFetch(found, wanted))

    rows = portion.rows.select(["id", "iggy_partition_id", "iggy_offset"]).to_pylist()
    assert rows == [
        {"id": 1, "iggy_partition_id": 0, "iggy_offset": 0},
        {"id": 5, "iggy_partition_id": 0, "iggy_offset": 4},
    ]
    assert portion.filtered == 1
    assert [(bad.offset, bad.stage, bad.transform) for bad in portion.refusals] == [
        (1, "transform", 1), (3, "decode", None),
    ]  # fmt: skip


# What producers do with a schema over time, and what becomes of it: nothing vanishes.
CHANGED = [
    b'{"id": 1, "at": "2026-03-29T01:00:00Z", "note": "as declared"}',
    b'{"id": "2", "at": "2026-03-29T01:00:00Z", "note": "id as text"}',
    b'{"at": "2026-03-29T01:00:00Z", "note": "no id"}',
    b'{"id": 4, "at": "2026-03-29T01:00:00Z", "note": "a new field", "new": {"x": 1}}',
    b'{"id": 5, "at": "2026-03-29T01:00:00Z", "note": {"text": "an object"}}',
    b'{"id": 6, "at": 1774746000000, "note": "a number for a time"}',
    b'{"id": 7, "at": "2026-03-29T03:00:00+02:00", "note": "a time with its offset"}',
]
DECLARED = "id BIGINT, at TIMESTAMP, note STRING"
AT = dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)


def decoded(schema: str | None, transforms: Any, data: list[bytes]) -> decode.Decoded:
    decoder = decode.build(payload.parse("json", schema, transforms, names=payload.OPTION_NAMES))
    assert decoder is not None
    return decoder.decode(pa.array(data, pa.binary()), messages(len(data)))


def test_a_schema_that_changes_on_the_way_loses_no_message() -> None:
    found = decoded(DECLARED, (), CHANGED)

    assert [row["id"] for row in found.values.to_pylist()] == [1, None, 4, 7]
    assert {row["at"] for row in found.values.to_pylist()} == {AT}
    assert [(bad.row, bad.message.rpartition("`$.")[2]) for bad in found.rejected] == [
        (1, "id`"), (4, "note`"), (5, "at`"),
    ]  # fmt: skip
    assert len(found.values) + len(found.rejected) == len(CHANGED)


def test_casts_take_a_schema_that_changes_on_the_way() -> None:
    fields = [
        {"key": "id", "to": "integer"}, {"key": "at", "to": "timestamp"},
        {"key": "note", "to": "string"},
    ]  # fmt: skip

    found = decoded(DECLARED, [{"cast_fields": {"fields": fields}}], CHANGED)

    assert found.rejected == ()
    assert [row["id"] for row in found.values.to_pylist()] == [1, 2, None, 4, 5, 6, 7]
    assert {row["at"] for row in found.values.to_pylist()} == {AT}
    assert found.values[4].as_py()["note"] == '{"text":"an object"}'


INSTANTS = [
    "2026-03-29T00:59:59.999999Z", "2026-03-29T01:00:00Z", "2026-12-31T23:59:59.999999Z",
    "2026-03-29T00:59:59.999999",
]  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/St_Johns"])
def test_times_do_not_depend_on_the_zone_of_the_process(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        data = [json.dumps({"at": text, "day": text}).encode() for text in INSTANTS]
        fields = [{"key": "at", "to": "timestamp"}, {"key": "day", "to": "date"}]
        plain = decoded("at TIMESTAMP", (), data).values.to_pylist()
        cast = decoded(
            "at TIMESTAMP, day DATE", [{"cast_fields": {"fields": fields}}], data
        ).values.to_pylist()
    finally:
        monkeypatch.undo()
        time.tzset()

    instants = [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in INSTANTS]
    assert [row["at"] for row in plain] == instants
    assert [row["at"] for row in cast] == instants
    assert [row["day"] for row in cast] == [instant.date() for instant in instants]
