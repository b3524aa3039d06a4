"""Wrong values of options: code 2, one line that names option and value, nothing sent."""

import socket
from pathlib import Path
from typing import Any

import pytest

from iggykube.__main__ import run
from iggykube.option_types import (
    Position,
    duration,
    parse_header,
    parse_position,
    parse_servers,
    size,
)

PRODUCE = ["produce", "shop", "orders"]
CONSUME = ["consume", "shop", "orders"]
# Nobody listens there: whoever connected would end with another code.
LOGIN = ["--servers", "127.0.0.1:1", "--username", "u"]

CREATE = ["topic", "create", "shop", "orders", *LOGIN]
SET = ["offset", "set", "shop", "orders", "0", *LOGIN]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*details: object, **more: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("IGGY_PASSWORD", "secret")
    for name in ("IGGY_USERNAME", "IGGY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


WRONG = [
    (["produce", "", "orders", *LOGIN], ["'STREAM'", "''", "1 to 255 bytes"]),
    (["produce", "shop", "x" * 256, *LOGIN], ["'TOPIC'", "1 to 255 bytes"]),
    (["consume", "", "orders", *LOGIN], ["'STREAM'"]),
    (["consume", "shop", "\udcff", *LOGIN], ["'TOPIC'", "UTF-8"]),
    ([*PRODUCE, "--servers", "127.0.0.1:0"], ["'--servers'", "127.0.0.1:0", "1 to 65535"]),
    ([*PRODUCE, "--servers", "127.0.0.1:70000"], ["'--servers'", "127.0.0.1:70000"]),
    ([*CONSUME, "--servers", "127.0.0.1"], ["'--servers'", "HOST:PORT"]),
    ([*CONSUME, "--servers", "tcp://a"], ["'--servers'", "tcp://a"]),
    ([*CONSUME, "--servers", ",".join(["a:1"] * 65)], ["'--servers'", "at most 64"]),
    ([*PRODUCE, *LOGIN, "--partition", "-1"], ["'--partition'", "-1"]),
    ([*PRODUCE, *LOGIN, "--partition", "4294967296"], ["'--partition'", "4294967296"]),
    ([*CONSUME, *LOGIN, "--partition", "one"], ["'--partition'", "'one'"]),
    ([*CONSUME, *LOGIN, "--count", "0"], ["'--count'", "0"]),
    ([*CONSUME, *LOGIN, "--from", "earliest"], ["'--from'", "'earliest'", "first, last, next"]),
    ([*CONSUME, *LOGIN, "--from", "-1"], ["'--from'", "'-1'"]),
    ([*CONSUME, *LOGIN, "--from", "9223372036854775808"], ["'--from'", "9223372036854775808"]),
    ([*CONSUME, *LOGIN, "--from", "1969-12-31"], ["'--from'", "1969-12-31", "after 1970"]),
    ([*CONSUME, *LOGIN, "--from", "2026-02-30"], ["'--from'", "2026-02-30"]),
    ([*CONSUME, *LOGIN, "--group", ""], ["'--group'", "''"]),
    ([*CONSUME, *LOGIN, "--group", "g", "--partition", "0"], ["--partition", "--group"]),
    ([*CONSUME, *LOGIN, "--null"], ["--null", "--output raw"]),
    ([*CONSUME, *LOGIN, "--output", "xml"], ["'--output'", "'xml'"]),
    ([*PRODUCE, *LOGIN, "--key", ""], ["'--key'", "1 to 255 bytes"]),
    ([*PRODUCE, *LOGIN, "--key", "k" * 256], ["'--key'", "1 to 255 bytes"]),
    ([*PRODUCE, *LOGIN, "--key", "k", "--partition", "0"], ["--key", "--partition"]),
    ([*PRODUCE, *LOGIN, "--header", "novalue"], ["'--header'", "novalue", "NAME=VALUE"]),
    ([*PRODUCE, *LOGIN, "--header", "=v"], ["'--header'", "1 to 255 bytes"]),
    ([*PRODUCE, *LOGIN, "--header", "a=1", "--header", "a=2"], ["'--header'", "'a'", "twice"]),
    ([*PRODUCE, *LOGIN, "--linger", "1 fortnight"], ["'--linger'", "1 fortnight"]),
    ([*PRODUCE, *LOGIN, "--linger", "2d"], ["'--linger'", "2d", "1d"]),
    ([*PRODUCE, *LOGIN, "--timeout", "0s"], ["'--timeout'", "0s", "1ms"]),
    ([*PRODUCE, *LOGIN, "--batch-bytes", "10XB"], ["'--batch-bytes'", "10XB"]),
    ([*PRODUCE, *LOGIN, "--batch-bytes", "33MiB"], ["'--batch-bytes'", "33MiB"]),
    ([*PRODUCE, *LOGIN, "--batch-bytes", "0"], ["'--batch-bytes'", "0"]),
    ([*PRODUCE, *LOGIN, "--batch-messages", "0"], ["'--batch-messages'", "0"]),
    ([*PRODUCE, *LOGIN, "none.txt"], ["none.txt"]),
    ([*PRODUCE, *LOGIN, "--file"], ["--file", "FILE"]),
    ([*PRODUCE, *LOGIN, "--file", "-"], ["--file", "'-'"]),
    ([*PRODUCE, *LOGIN, "--file", "--null", __file__], ["--null", "--file"]),
    ([*PRODUCE, "--servers", "a:1"], ["--servers", "--username", "--token-file"]),
    ([*PRODUCE, "--servers", "a:1", "--password-file", __file__], ["--password-file"]),
    ([*PRODUCE, *LOGIN, "--token-file", __file__], ["--token-file", "--username"]),
    ([*PRODUCE, *LOGIN, "--username", ""], ["'--username'", "''"]),
    ([*PRODUCE, *LOGIN, "--timeout", "-1s"], ["'--timeout'", "-1s"]),
    ([*PRODUCE, *LOGIN, "--ca", __file__], ["--ca", "--tls"]),
    ([*PRODUCE, *LOGIN, "--server-name", "x"], ["--server-name", "--tls"]),
    ([*PRODUCE, *LOGIN, "--tls", "--ca", "/dev/null"], ["'--ca'", "/dev/null"]),
    ([*PRODUCE, "--tls"], ["--tls", "--servers"]),
    ([*PRODUCE, "--servers", "a:1", "--token-file", "/dev/null"], ["'--token-file'", "empty"]),
    (["produce", "shop"], ["'TOPIC'"]),
    (["consume", "shop", "orders", "more", *LOGIN], ["more"]),
    (["sink", "lst"], ["'lst'"]),
    (["sink", "list", "--output", "xml"], ["'--output'", "'xml'"]),
    (["completion", "tcsh"], ["'tcsh'", "'bash'"]),
    (["publish"], ["'publish'", "produce"]),
    (["ping", "--servers", "quic://h:1"], ["'--servers'", "quic://h:1"]),
    (["stats", "--servers", "h:0", "--username", "u"], ["'--servers'", "h:0", "1 to 65535"]),
    (["stream", "create", "", *LOGIN], ["'STREAM'", "''", "1 to 255 bytes"]),
    (["stream", "rename", "shop", "x" * 256, *LOGIN], ["'NAME'", "1 to 255 bytes"]),
    ([*CREATE, "--partitions", "-1"], ["'--partitions'", "-1"]),
    ([*CREATE, "--partitions", "0"], ["'--partitions'", "0"]),
    ([*CREATE, "--expiry", "1 fortnight"], ["'--expiry'", "1 fortnight", "such as 7d"]),
    ([*CREATE, "--max-size", "10XB"], ["'--max-size'", "10XB"]),
    ([*CREATE, "--segment-size", "10XB"], ["'--segment-size'", "10XB"]),
    ([*CREATE, "--option", "segment_size=-1"], ["'--option'", "segment_size=NUMBER"]),
    (["topic", "trim", "shop", "orders", "4294967296", "1", *LOGIN], ["'PARTITION'"]),
    (["group", "create", "shop", "orders", "", *LOGIN], ["'GROUP'", "''"]),
    ([*SET, "9223372036854775808", "--group", "g"], ["'OFFSET'", "9223372036854775808"]),
    ([*SET, "0", "--group", ""], ["'--group'", "''"]),
    ([*SET, "0", "--group-id", "-1"], ["'--group-id'", "-1"]),
    ([*SET, "0", "--consumer-id", "4294967296"], ["'--consumer-id'", "4294967296"]),
    (["client", "show", "me", *LOGIN], ["'ID'", "'me'"]),
    (["token", "create", "t", "--expires", "1 fortnight", *LOGIN], ["'--expires'", "fortnight"]),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda value: " ".join(value)[:60])
def test_a_wrong_value_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    exit_code = run(arguments)

    told = capsys.readouterr()
    assert (exit_code, told.out) == (2, ""), told.err
    assert len(told.err.splitlines()) == 1, told.err
    assert [word for word in words if word not in told.err] == [], told.err


def test_an_empty_file_is_no_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    exit_code = run([*PRODUCE, *LOGIN, "--file", str(empty)])

    told = capsys.readouterr()
    assert (exit_code, told.out) == (2, "")
    assert f"'FILE': '{empty}' has 0 bytes" in told.err


def test_both_logins_in_the_environment_are_one_too_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IGGY_USERNAME", "u")
    monkeypatch.setenv("IGGY_TOKEN", "very-secret")

    exit_code = run([*PRODUCE, "--servers", "127.0.0.1:1"])

    told = capsys.readouterr()
    assert exit_code == 2
    assert "IGGY_TOKEN and IGGY_USERNAME" in told.err
    assert "secret" not in told.err


def test_without_servers_and_instance_there_is_one_line_and_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (PRODUCE, CONSUME, ["sink", "list"], ["sink", "status", "x"]):
        exit_code = run([*command, "--data", str(tmp_path)])

        told = capsys.readouterr()
        assert (exit_code, told.out) == (1, "")
        assert "no instance runs" in told.err
        assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0.0), ("10ms", 0.01), ("1m30s", 90.0), ("1d", 86_400.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration()(text) == seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("64KiB", 65_536), ("1 MiB", 1 << 20), ("2kB", 2000)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size(1 << 20)(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first", Position("first")),
        ("0", Position("offset", 0)),
        ("1970-01-01T00:00:00.000001Z", Position("timestamp", 1)),
        ("1970-01-01T01:00:00+01:00", Position("timestamp", 0)),
        ("2026-03-29T00:59:59.999999", Position("timestamp", 1_774_745_999_999_999)),
        ("2026-03-29T00:59:59.999999Z", Position("timestamp", 1_774_745_999_999_999)),
    ],
)
def test_positions(text: str, expected: Position, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")

    assert parse_position(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_header, "a=b=c", ("a", "b=c")),
        (parse_servers, "a:1, [::1]:8090", ("a:1", "[::1]:8090")),
    ],
)
def test_other_values(parse: Any, text: str, expected: object) -> None:
    assert parse(text) == expected
