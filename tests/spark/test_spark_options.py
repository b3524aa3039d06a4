"""Options: every mistake is refused by name."""

import pytest

from iggy_spark import options, schema
from iggy_spark.errors import OptionError
from iggy_spark.offsets import EARLIEST, LATEST

NEEDED = {
    "servers": "127.0.0.1:8090",
    "username": "iggy",
    "password": "a secret",
    "stream": "shop",
    "topic": "orders",
}


def test_defaults_of_a_stream_and_a_batch() -> None:
    stream, batch = options.parse(NEEDED, mode="stream"), options.parse(NEEDED, mode="batch")

    assert (stream.starting.everywhere, batch.starting.everywhere) == (LATEST, EARLIEST)
    assert stream.max_offsets_per_trigger == 1_000_000
    assert stream.fail_on_data_loss
    assert stream.columns == (*options.COLUMNS, "payload")
    assert stream.offset_mirror == "off"


def test_option_names_are_compared_without_case() -> None:
    given = {**{k.upper(): v for k, v in NEEDED.items()}, "maxoffsetspertrigger": "5"}

    assert options.parse(given, mode="stream").max_offsets_per_trigger == 5


def test_the_password_is_in_no_representation() -> None:
    assert "a secret" not in repr(options.parse(NEEDED, mode="batch"))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"maxOffsetPerTrigger": "1"}, "maxOffsetPerTrigger is not.*did you mean maxOffsetsPerTri"),
        ({"path": "x"}, "path is not an option"),
        ({"archiveMode": "only"}, "archiveMode is planned"),
        ({"servers": "localhost"}, "servers='localhost' .*host:port"),
        ({"servers": "a:1,b:70000"}, "servers="),
        ({"stream": ""}, "stream="),
        ({"topic": "x" * 256}, "topic="),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss='yes'.*true or false"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger='-1'"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many'"),
        ({"fetchBytes": "4MB"}, "fetchBytes='4MB'.*4MiB"),
        ({"retryTimeoutMs": "1 fortnight"}, "retryTimeoutMs="),
        ({"retryTimeoutMs": "5 s"}, "retryTimeoutMs="),
        ({"startingOffsets": "soon"}, "startingOffsets='soon'.*earliest, latest"),
        ({"startingOffsets": '{"0": "a"}'}, "startingOffsets: partition 0"),
        ({"startingOffsets": "committed"}, "startingOffsets=committed needs consumerGroup"),
        ({"startingOffsets": '{"0": -3}'}, "startingOffsets=committed needs consumerGroup"),
        ({"endingOffsets": "latest"}, "endingOffsets works in batch reads only"),
        ({"offsetMirror": "required"}, "offsetMirror=required needs consumerGroup"),
        ({"columns": "offset,payload,nothing"}, "columns: 'nothing' does not exist"),
        ({"columns": "offset,value"}, "columns: 'value'.*need a payloadFormat"),
        ({"columns": "offset,offset"}, "columns=.*each column once"),
        ({"payloadFormat": "xml"}, "payloadFormat='xml'.*raw, text, json"),
        ({"payloadFormat": "json"}, "payloadSchema is missing"),
        ({"payloadSchema": "id BIGINT"}, "payloadSchema goes with payloadFormat=json"),
        ({"payloadFormat": "json", "payloadSchema": "id BIGNUM"}, "payloadSchema: field 'id'"),
        ({"onDecodeError": "skip"}, "onDecodeError='skip'"),
        ({"credentialsPath": "/x"}, "credentialsPath and username/password exclude"),
    ],
)
def test_a_wrong_stream_option_is_named(changed: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        options.parse({**NEEDED, **changed}, mode="stream")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest would read nothing"),
        ({"startingOffsets": '{"0": -1}'}, "startingOffsets=latest would read nothing"),
        ({"endingOffsets": "earliest"}, "endingOffsets must be latest or offsets"),
        ({"endingOffsets": '{"0": -2}'}, "endingOffsets must be latest or offsets"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger works in stream reads only"),
        ({"stateLocation": "/x"}, "stateLocation works in stream reads only"),
    ],
)
def test_a_wrong_batch_option_is_named(changed: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        options.parse({**NEEDED, **changed}, mode="batch")


@pytest.mark.parametrize("missing", list(NEEDED))
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(OptionError, match=missing):
        options.parse({k: v for k, v in NEEDED.items() if k != missing}, mode=None)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h30m", 5_400_000), ("7", 7)],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert options.parse_duration_ms("x", text) == duration_ms


def test_credentials_from_a_folder_are_read_anew(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    given = {k: v for k, v in NEEDED.items() if k not in ("username", "password")}
    login = options.parse({**given, "credentialsPath": str(folder)}, mode="batch").login
    with pytest.raises(OptionError, match="credentialsPath"):
        login.read()

    (folder / "username").write_text("iggy\n")
    (folder / "password").write_text("first\n")
    assert login.read() == ("iggy", "first")
    (folder / "password").write_text("second")
    assert login.read() == ("iggy", "second")


def test_a_schema_is_read_and_written_back() -> None:
    text = (
        "id bigint NOT NULL, `odd name``s` STRING, price DECIMAL(18,2), at TIMESTAMP, "
        "tags ARRAY<STRING>, who STRUCT<name: STRING, ids: ARRAY<STRUCT<a INT>>>"
    )

    fields = schema.parse(text, name="payloadSchema")

    assert [item.name for item in fields] == ["id", "odd name`s", "price", "at", "tags", "who"]
    assert not fields[0].nullable
    whole = schema.Struct(fields)
    (found,) = schema.parse(f"all {schema.to_ddl(whole)}", name="x")
    assert found.type == whole


@pytest.mark.parametrize(
    "text",
    ["", "id", "id BIGINT,", "id BIGINT x", "a INT, A INT", "m MAP<STRING, INT>", "d DECIMAL(40,2)",
     "d DECIMAL(2,3)", "a ARRAY<INT", "a ARRAY INT", "a;b INT", "a INT NOT", "a " + "ARRAY<" * 20],
)  # fmt: skip
def test_a_wrong_schema_names_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="payloadSchema"):
        schema.parse(text, name="payloadSchema")
