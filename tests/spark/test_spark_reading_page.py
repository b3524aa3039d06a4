"""The page about reading says what the code does, and its programs run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from broker_process import PASSWORD, USERNAME
from iggy_spark import arrow, options
from iggy_wire.batch import Message
from iggy_wire.options import ValueKind, pair_bytes
from iggy_wire.primitives import Partitioning

if TYPE_CHECKING:
    from conftest import Topic

PAGE = (Path(__file__).parents[2] / "docs" / "spark-reading.md").read_text()
TABLE = {option.name: option for option in options._TABLE}


def rows(section: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


OPTIONS = {row[0].strip("` "): row for row in rows("Options")}


def test_the_page_has_every_option_and_no_other() -> None:
    assert set(OPTIONS) == set(TABLE)
    assert len(rows("Options")) == len(TABLE)


@pytest.mark.parametrize("name", list(TABLE))
def test_default_and_kind_of_read_are_those_of_the_option(name: str) -> None:
    option, (_, default, mode, *meaning) = TABLE[name], OPTIONS[name]

    assert mode == option.mode
    assert meaning != [""] or name == "password"
    told = re.fullmatch(r"`(.*?)`(; streams `latest`)?", default)
    if name == "startingOffsets":
        both = (
            options.parse(needed(), mode=kind).starting.everywhere for kind in ("batch", "stream")
        )
        assert tuple(both) == (-2, -1)
    elif told is None:
        assert default == ("required" if name == "servers" else "")
        assert option.default in (None, ())
    else:
        assert option.parse(name, told[1]) == option.parse(name, str(option.default).lower())


def needed() -> dict[str, str]:
    return {"servers": "a:1", "token": "t", "stream": "s", "topic": "t"}


def test_the_page_has_every_column() -> None:
    given = options.parse(
        {**needed(), "includeHeaders": "true", "payloadFormat": "text"}, mode=None
    )
    names = [name for row in rows("Columns") for name in re.findall(r"`(\w+)`", row[0])]

    assert set(names) == set(given.columns)
    kinds = {name: row[1] for row in rows("Columns") for name in re.findall(r"`(\w+)`", row[0])}
    for name in (*options.COLUMNS, "payload", "headers"):
        kind = kinds[name].replace("&lt;", "<").replace("&gt;", ">")
        assert kind == arrow._TYPES[name][1], name


def test_the_programs_of_the_page_run(spark: SparkSession, topic: "Topic", tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "username").write_text(USERNAME)
    (login / "password").write_text(PASSWORD)
    headers = pair_bytes(ValueKind.STRING, b"day", ValueKind.UINT16, b"\x07\x00")
    messages = [
        Message(b'{"carrier": "AA", "dep_delay": %d}' % n, headers=headers) for n in range(100)
    ]
    topic.client.send(topic.stream, topic.name, Partitioning.partition(0), messages)
    stream, header, filtered, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for name, here in (
        ("127.0.0.1:8090", topic.address),
        ("/etc/iggy", str(login)),
        ('"flights"', f'"{topic.stream}"'),
        ('"departures"', f'"{topic.name}"'),
    ):
        assert name in stream
        stream = stream.replace(name, here)
    names: dict[str, Any] = {"spark": spark, "login": topic.options()}

    exec(stream, names)
    seen: list[tuple[int, ...]] = []
    query = (
        names["frame"].select("offset", "value.dep_delay").writeStream
        .foreachBatch(lambda batch, number: seen.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert sorted(seen) == [(n, n) for n in range(100)]

    names["frame"] = (
        spark.read.format("iggy").options(**topic.options(includeHeaders="true")).load()
    )
    exec(header, names)
    assert tuple(names["rows"].orderBy("offset").collect()[3]) == (3, None, 7)

    try:
        exec(filtered, names)
        assert names["late"].count() == 50
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
