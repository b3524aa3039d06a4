"""Every command that fails: the broker goes half-way, rights are missing, the outlet is full."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click
import pytest

from broker_process import PASSWORD, BrokerProcess
from cli_program import PROGRAM, clean_environment, run_program
from iggy_client.client import Client, Message
from iggy_wire.primitives import Consumer, Partitioning
from iggykube.__main__ import run
from iggykube.commands import COMMANDS, cli
from iggykube.connection import Target

# Every command that talks to a broker. s: a stream, t: its topic, f: a file with a few bytes.
ALL = """
client list | client show 1 | client me | cluster | stats | ping
stream list | stream show s | stream create new | stream rename s new | stream purge s --yes
stream delete s --yes
topic list s | topic show s t | topic create s new | topic update s t --expiry 1d
topic add-partitions s t 1 | topic remove-partitions s t 1 --yes | topic trim s t 0 1 --yes
topic purge s t --yes | topic delete s t --yes
group list s t | group show s t g | group create s t new | group delete s t g --yes
offset show s t --consumer c | offset set s t 0 0 --consumer c
offset delete s t 0 --consumer c --yes
user list | user show iggy | user create newer --new-password-file f | user update iggy --name new
user permissions nobody | user delete nobody --yes
user password iggy --new-password-file f --current-password-file f
token list | token create new --expires never | token delete new --yes
message send s t f | message poll s t
produce s t f | consume s t
"""
EACH = [line.strip() for row in ALL.strip().splitlines() for line in row.split("|")]
OF_EVERYBODY = {
    "client me", "cluster", "ping", "token list", "token create new --expires never",
    "stream list",  # those that one may see
}  # fmt: skip
OF_A_STREAM = [line for line in EACH if "s" in line.split()]
READING = [
    "client list", "client me", "cluster", "stats", "ping", "stream list", "stream show s",
    "topic list s", "topic show s t", "group list s t", "group show s t g",
    "offset show s t --consumer c", "user list", "user show iggy", "token list",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokens(broker: BrokerProcess) -> Iterator[dict[str, str]]:
    """Of root, and of a user without rights: logins by token cost no hash."""
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 2)
        client.create_group("s", "t", "g")
        for partition in range(2):
            client.send("s", "t", Partitioning.partition(partition), [Message(b"m")] * 10)
        client.store_offset(Consumer.plain("c"), "s", "t", 0, 1)
        client.create_user("guest", PASSWORD)
        root = client.create_access_token("root's")
        with Client.connect(broker.address, "guest", PASSWORD) as guest:
            yield {"root": root, "guest": guest.create_access_token("guest's")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("some bytes\n")
    return path


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IGGY_USERNAME", "IGGY_PASSWORD", "IGGY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch, tokens: dict[str, str]) -> None:
    monkeypatch.setenv("IGGY_TOKEN", tokens["root"])


def words_of(broker: BrokerProcess, line: str, file: Path, *, stream: str = "s") -> list[str]:
    stand_for = {"s": stream, "f": str(file)}
    return [*(stand_for.get(word, word) for word in line.split()), "--servers", broker.address]


def failure(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What is said by a command that must fail."""
    code = run(arguments)
    told = capsys.readouterr()
    assert (code, told.out) == (1, ""), (arguments, told)
    assert told.err.startswith("iggykube: ") and len(told.err.splitlines()) == 1
    return told.err


def test_every_command_is_here() -> None:
    context = click.Context(cli)
    apart = {"check", "completion", "down", "sink", "source", "status", "up"}
    found = set()
    for name in COMMANDS.keys() - apart:
        command = cli.get_command(context, name)
        more = command.commands if isinstance(command, click.Group) else ()
        found |= {f"{name} {one}" for one in more} if more else {name}

    assert {line for line in found if not any(one.startswith(line) for one in EACH)} == set()
    assert len(EACH) == len(found)


@pytest.mark.usefixtures("as_root")
def test_a_broker_that_goes_half_way_fails_every_command(
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
) -> None:
    connect = Target.connect

    def connect_and_lose(target: Target) -> Client:
        client = connect(target)
        client._link._socket.shutdown(2)
        return client

    monkeypatch.setattr(Target, "connect", connect_and_lose)
    for line in EACH:
        arguments = words_of(broker, line, file)
        if line.split()[0] in ("message", "produce", "consume"):
            code = run(arguments)
            assert (code, capsys.readouterr().out) == (1, "")
            continue
        failure(capsys, arguments)
        failure(capsys, [*arguments, "--output", "json"])


@pytest.mark.usefixtures("as_root")
def test_a_missing_stream_fails_every_command_that_names_one(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    for line in OF_A_STREAM:
        failure(capsys, words_of(broker, line, file, stream="nowhere"))


def test_without_rights_every_command_fails_but_those_for_all(
    broker: BrokerProcess,
    tokens: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
) -> None:
    monkeypatch.setenv("IGGY_TOKEN", tokens["guest"])
    allowed = set()
    for line in EACH:
        code = run(words_of(broker, line, file))
        told = capsys.readouterr()
        if code == 0:
            allowed.add(line)
        else:
            assert (code, told.out, len(told.err.splitlines())) == (1, "", 1), line

    assert allowed - OF_EVERYBODY == {"token delete new --yes"}, "which it has just made"


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("outlet", ["full", "closed"])
def test_an_outlet_that_takes_nothing_is_a_failure(
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    outlet: str,
    output: str,
) -> None:
    code: object
    for line in READING:
        arguments = [*words_of(broker, line, file), "--output", output]
        with monkeypatch.context() as patched, outlet_of(outlet) as stream:
            patched.setattr(sys, "stdout", stream)
            try:
                code = run(arguments)
            except SystemExit as ended:  # so do the libraries end what nobody reads
                code = ended.code
        told = capsys.readouterr().err
        assert code == 1, line
        assert told == ("iggykube: No space left on device\n" if outlet == "full" else ""), line


@contextmanager
def outlet_of(kind: str) -> Iterator[TextIO]:
    """Standard output as a process has it, onto a full disk or a pipe without a reader."""
    if kind == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, descriptor = os.pipe()
        os.close(reading)
    with open(descriptor, "w") as stream, open(os.devnull, "wb") as nothing:
        try:
            yield stream
        finally:
            os.dup2(nothing.fileno(), descriptor)  # for what is left in the buffer


def test_a_pipe_that_ends_leaves_no_trace(broker: BrokerProcess, tokens: dict[str, str]) -> None:
    command = " ".join([*PROGRAM, "topic", "show", "s", "t", "--servers", broker.address])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        env=clean_environment(IGGY_TOKEN=tokens["root"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("id")
    assert done.stderr == ""


def test_ping_needs_no_login_and_tries_one_that_is_given(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ping = ["ping", "--servers", broker.address]
    assert run([*ping, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["milliseconds"] > 0
    monkeypatch.setenv("IGGY_TOKEN", "of nobody")
    assert "the broker at" in failure(capsys, ping)
    assert run(["stats", "--servers", broker.address, "--token-file", "/dev/null"]) == 2


@pytest.mark.usefixtures("as_root")
def test_a_group_and_a_consumer_of_one_name_or_number_are_two(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    def offset(*arguments: str) -> str:
        code = run(["offset", *arguments, "--servers", broker.address])
        told = capsys.readouterr()
        assert (code, told.err) == (0, "")
        return told.out

    def stored(*who: str) -> int | None:
        rows = json.loads(offset("show", "s", "t", *who, "--output", "json"))["offsets"]
        found: int | None = rows[1]["stored_offset"]
        return found

    with broker.client() as client:
        number = str(client.create_group("s", "t", "both").group.id)
        consumer = Consumer.plain(int(number))
        client.store_offset(consumer, "s", "t", 1, 3)
        client.store_offset(Consumer.plain("both"), "s", "t", 1, 4)
    assert stored("--group", "both") is None
    offset("set", "s", "t", "1", "7", "--group", "both")
    everybody = (("--group", "both"), ("--group-id", number), ("--consumer-id", number),
                 ("--consumer", "both"))  # fmt: skip

    assert [stored(*who) for who in everybody] == [7, 7, 3, 4]
    offset("set", "s", "t", "1", "2", "--consumer-id", number)
    offset("set", "s", "t", "1", "8", "--group-id", number)
    assert [stored(*who) for who in everybody] == [8, 8, 2, 4]
    offset("set", "s", "t", "1", "5", "--consumer", "both")
    offset("delete", "s", "t", "1", "--group-id", number, "--yes")
    assert [stored(*who) for who in everybody] == [None, None, 2, 5]

    for who in (("--group", "none"), ("--group-id", "77"), ("--consumer", "none"),
                ("--consumer-id", "77")):  # fmt: skip
        servers = ("--servers", broker.address)
        assert who[1] in failure(capsys, ["offset", "show", "s", "t", *who, *servers])
        gone = ["offset", "delete", "s", "t", "1", *who, "--yes", *servers]
        failure(capsys, gone)
    assert run(["offset", "show", "s", "t", "--group", "g", "--consumer", "c"]) == 2
    capsys.readouterr()
    assert run(["offset", "show", "--help"]) == 0
    told = capsys.readouterr().out
    assert "Of this consumer group." in told and "which is in no group" in told


@pytest.mark.parametrize("home", [None, "/nonexistent", "/proc", "file"])
def test_a_home_is_not_needed(
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    home: str | None,
) -> None:
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", str(file) if home == "file" else home)
    monkeypatch.chdir(file.parent)

    assert run(["ping", "--servers", broker.address]) == 0
    assert "no instance runs" in (capsys.readouterr(), failure(capsys, ["status"]))[1]
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_of_two_that_write_one_file_one_does(
    broker: BrokerProcess, tokens: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "token"
    place = ["--to", str(path), "--servers", broker.address]
    processes = [
        subprocess.Popen(
            [*PROGRAM, "token", "create", name, "--expires", "1h", *place],
            env=clean_environment(IGGY_TOKEN=tokens["root"], HOME="/nonexistent"),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for name in ("one", "two")
    ]
    told = [process.communicate()[1].decode() for process in processes]

    assert sorted(process.returncode for process in processes) == [0, 1]
    assert [len(one.splitlines()) for one in sorted(told)] == [0, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run_program("stats", *place[2:], "--token-file", path).returncode == 0
