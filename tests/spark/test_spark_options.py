"""Options: every mistake is refused by name."""

from pathlib import Path

import pytest

from iggy_spark import options, schema
from iggy_spark.errors import OffsetFormatError, OptionError
from iggy_spark.offsets import EARLIEST, LATEST, Offsets, QueryOffsets
from iggy_spark.points import Instant, Point
from iggy_spark.selection import Selection, TopicName
from tls_front import authority

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
        ({"archiveMode": "only"}, "archiveMode=only needs archivePath"),
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
        ({"topic": "x", "subscribe": "a/b"}, "stream and topic and subscribe exclude each other"),
        ({"token": "t"}, "token and username/password exclude"),
        ({"tls.caPath": "/ca.pem"}, "tls.caPath needs tls.enabled=true"),
        ({"startingTimestamp": "1767225600000000"}, "startingTimestamp=.*looks like microseconds"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "startingTimestamp=.*in which zone"),
        ({"startingTimestamp": "-1"}, "startingTimestamp="),
        ({"startingTimestamp": "1969-12-31T23:59:59Z"}, "startingTimestamp=.*not before 1970"),
        ({"startingOffsetsByTimestamp": '{"0": true}'}, "ByTimestamp: partition 0=True"),
        ({"startingOffsetsByTimestamp": '{"x": 1}'}, "ByTimestamp must be JSON.*'x' is no part"),
        ({"startingOffsetsByTimestampStrategy": "next"}, "Strategy='next'.*error, latest"),
        ({"endingTimestamp": "5"}, "endingTimestamp works in batch reads only"),
        ({"maxBytesPerTrigger": "2TiB"}, "maxBytesPerTrigger='2TiB'.*at most 1024GiB"),
        ({"minOffsetsPerTrigger": "-1"}, "minOffsetsPerTrigger='-1'"),
        ({"maxTriggerDelay": "15 minutes"}, "maxTriggerDelay="),
        ({"arrowBatchBytes": "0"}, "arrowBatchBytes='0'"),
        ({"filterPushdown": "true"}, "filterPushdown works in batch reads only"),
        ({"clientName": ""}, "clientName="),
        ({"offsetMirror": "required"}, "offsetMirror=required needs consumerGroup"),
        ({"columns": "offset,payload,nothing"}, "columns: 'nothing' does not exist"),
        ({"columns": "offset,value"}, "columns: 'value'.*need a payloadFormat"),
        ({"columns": "offset,offset"}, "columns=.*each column once"),
        ({"payloadFormat": "xml"}, "payloadFormat='xml'.*raw, text, json"),
        ({"payloadFormat": "avro"}, "payloadSchema is missing"),
        ({"payloadSchema": "id BIGINT"}, "payloadSchema does not go with payloadFormat=raw"),
        ({"payloadFormat": "json", "payloadSchema": "id BIGNUM"}, "payloadSchema: field 'id'"),
        ({"payloadFormat": "json", "payloadColumns": "id BIGINT"}, "payloadColumns goes with"),
        ({"onDecodeError": "drop"}, "onDecodeError='drop'"),
        ({"transforms": '[{"flatten": {}}]'}, "transforms: raw payloads have no fields"),
        ({"payloadFormat": "json", "transforms": "flatten"}, "transforms: no JSON"),
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


def chosen(**ways: str) -> Selection:
    given = {k: v for k, v in NEEDED.items() if k not in ("stream", "topic")}
    return options.parse({**given, **ways}, mode="batch").selection


def test_topics_are_selected_in_one_of_four_ways() -> None:
    a_b, c_d = TopicName("a", "b"), TopicName("c", "d")

    assert chosen(stream="a", topic="b").topics == (a_b,)
    assert chosen(subscribe="c/d, a/b").topics == (a_b, c_d)
    assert chosen(subscribe='[["x/y", "b,c"]]').topics == (TopicName("x/y", "b,c"),)
    assigned = chosen(assign='{"a/b": [0, 2], "x/y": {"z": [1]}}')
    assert assigned.topics == (a_b, TopicName("x/y", "z"))
    assert assigned.partitions == {"a/b": {0, 2}, "x/y/z": {1}}
    pattern = chosen(subscribePattern="shop/orders.*")
    assert (pattern.matches("shop/orders-2"), pattern.matches("my-shop/orders")) == (True, False)


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        ({}, "stream is missing.*subscribe, subscribePattern or assign"),
        ({"stream": "a"}, "topic is missing"),
        ({"subscribe": "a/b", "assign": "{}"}, "subscribe and assign exclude each other"),
        ({"subscribe": "a"}, "subscribe='a'.*stream/topic"),
        ({"subscribe": "a/b/c"}, 'subscribe=.*JSON such as \\[\\["stream", "topic"\\]\\]'),
        ({"subscribe": "a/b,a/b"}, "subscribe: a/b is there twice"),
        ({"subscribe": '[["a/b", "c"], ["a", "b/c"]]'}, "subscribe: a/b/c is there twice"),
        ({"subscribe": "[[1, 2]]"}, "subscribe="),
        ({"subscribe": "a/"}, "subscribe=''.*1 to 255 bytes"),
        (
            {"subscribe": ",".join(f"a/{n}" for n in range(300))},
            "selects 300 topics, at most are 256",
        ),
        ({"subscribePattern": "("}, "subscribePattern=.*regular expression"),
        ({"subscribePattern": "x" * 2000}, "subscribePattern: use 1 to 1000 characters"),
        ({"subscribe": "[]"}, "subscribe="),
        ({"assign": "[]"}, "assign="),
        ({"assign": "{}"}, "assign="),
        ({"assign": '{"a": {}}'}, "assign="),
        ({"assign": '{"a/b": []}'}, "assign="),
        ({"assign": '{"a/b": [-1]}'}, "assign="),
        ({"assign": '{"a/b": ["0"]}'}, "assign="),
        ({"assign": '{"a/b/c": [0]}'}, "assign=.*for names with a slash"),
        ({"assign": '{"a/b": [0]}', "startingOffsets": '{"1": 5}'}, "partition 1 of a/b is not re"),
        (
            {"subscribe": "a/b,c/d", "startingOffsets": '{"0": 5}'},
            "topic '0' is not read, a/b, c/d",
        ),
        ({"subscribe": "a/b,c/d", "startingOffsets": '{"a/b": 5}'}, "startingOffsets must be JSON"),
        ({"subscribePattern": "a/.*", "startingOffsets": '{"b/b": {"0": 5}}'}, "'b/b' is not read"),
    ],
)
def test_a_wrong_selection_is_named(ways: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        chosen(**ways)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("[1]", "must be JSON"),
        ("7", "must be JSON"),
        ("{}", "must be JSON"),
        ('{"a": 1}', "'a' is no partition"),
        ('{"0": "1"}', "partition 0"),
        ('{"0": true}', "partition 0"),
        ('{"0": -4}', "partition 0: -4"),
        ('{"0": 1.0}', "partition 0"),
        ('{"other/topic": {"0": 1}}', "'other/topic' is no partition"),
        ("[" * 100_000, "earliest, latest, committed, or JSON"),
    ],
)
def test_wrong_positions_name_the_option(value: str, told: str) -> None:
    with pytest.raises(OptionError, match=rf"startingOffsets.*{told}"):
        options.parse({**NEEDED, "startingOffsets": value}, mode="stream")


def test_positions_may_stand_under_the_topic() -> None:
    value = '{"shop/orders": {"1": 5, "0": -2}}'

    start = options.parse({**NEEDED, "startingOffsets": value}, mode="batch").starting

    assert start == Point("startingOffsets", None, {"shop/orders": {0: EARLIEST, 1: 5}})


def test_times_go_before_offsets_and_the_more_general_one_first() -> None:
    given = {**NEEDED, "startingOffsets": "earliest"}
    by_partition = {
        **given,
        "startingOffsetsByTimestamp": '{"0": 1000, "1": "1970-01-01T00:00:02Z"}',
    }
    for_all = {**by_partition, "startingTimestamp": "1970-01-01T02:00:00.000001+01:00"}

    found = options.parse(by_partition, mode="stream").starting
    assert found.places == {"shop/orders": {0: Instant(1_000_000), 1: Instant(2_000_000)}}
    found = options.parse(for_all, mode="stream").starting
    assert found.everywhere == Instant(3_600_000_001)
    assert (found.option, found.moves) == ("startingTimestamp", "startingTimestamp, a time,")


def test_what_moves_is_told() -> None:
    def moves(start: str) -> str | None:
        given = {**NEEDED, "startingOffsets": start, "consumerGroup": "g"}
        return options.parse(given, mode="stream").starting.moves

    assert moves("latest") == moves('{"0": 5, "1": -1}') == "startingOffsets=latest"
    assert moves("committed") == "startingOffsets=committed"
    assert moves("earliest") is moves('{"0": 5, "1": -2}') is None


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"shop/other": {0: 1}}, "of topic 'shop/other', which this one does not read"),
        ({"shop/orders": {0: 1, 1: 1}}, "of partition 1 of shop/orders, which this one does not"),
    ],
)
def test_a_checkpoint_of_another_query_is_refused(
    offsets: dict[str, dict[int, int]], told: str
) -> None:
    selection = chosen(assign='{"shop/orders": [0]}')

    with pytest.raises(OffsetFormatError, match=told):
        selection.check(QueryOffsets.of(Offsets(n, "1-1", p) for n, p in offsets.items()))


def test_headers_are_a_column_when_asked_for() -> None:
    def columns(**more: str) -> tuple[str, ...]:
        return options.parse({**NEEDED, **more}, mode="batch").columns

    assert columns(includeHeaders="true") == (*options.COLUMNS, "payload", "headers")
    assert columns(includeHeaders="true", columns="offset") == ("offset", "headers")
    assert columns(columns="headers,offset") == ("headers", "offset")


def test_a_token_and_tls_from_files_are_read_anew(tmp_path: Path) -> None:
    given = {k: v for k, v in NEEDED.items() if k not in ("username", "password")}
    ca = {"tls.enabled": "true", "tls.caPath": str(tmp_path / "ca.pem"), "tls.serverName": "iggy"}
    login = options.parse({**given, **ca, "credentialsPath": str(tmp_path)}, mode="batch").login
    assert login.tls is not None
    with pytest.raises(OptionError, match=r"tls\.caPath: .* cannot be read"):
        login.tls.read()

    (tmp_path / "ca.pem").write_text("PEM")
    with pytest.raises(OptionError, match=r"tls\.caPath: .* holds no certificate"):
        login.tls.read()
    made = authority(tmp_path / "made", "iggy")
    (tmp_path / "ca.pem").write_text(made.pem)
    (tmp_path / "username").write_text("iggy")
    (tmp_path / "password").write_text("secret")
    assert (login.tls.read().ca_pem, login.tls.read().server_name) == (made.pem, "iggy")
    assert login.read() == ("iggy", "secret")
    (tmp_path / "token").write_text("a token\n")
    assert login.read() == "a token"
    direct = options.parse({**given, "token": "a token"}, mode="batch")
    assert direct.login.read() == "a token"
    assert "a token" not in repr(direct)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h30m", 5_400_000), ("7", 7)],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert options.parse_duration_ms("x", text) == duration_ms


def test_credentials_from_a_folder_are_read_anew(tmp_path: Path) -> None:
    folder = tmp_path
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
    ["", "id", "id BIGINT,", "id BIGINT x", "a INT, A INT", "m MAP<DOUBLE, INT>", "d DECIMAL(40,2)",
     "d DECIMAL(2,3)", "a ARRAY<INT", "a ARRAY INT", "a;b INT", "a INT NOT", "a " + "ARRAY<" * 20],
)  # fmt: skip
def test_a_wrong_schema_names_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="payloadSchema"):
        schema.parse(text, name="payloadSchema")
