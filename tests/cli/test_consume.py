"""`iggykube consume` with a real broker process."""

import fcntl
import os
import re
import signal
import subprocess
import termios
from array import array
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from broker_process import BrokerProcess, readable
from cli_program import PROGRAM_S, TopicProgram, fresh_topic, run_program
from consumers import committed, fill, members, start
from iggy_client.client import Message
from iggy_wire.options import ValueKind, pair_bytes
from iggy_wire.primitives import Partitioning
from iggykube.outlet import PIECE_BYTES_MAX
from waiting import wait_until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(broker: BrokerProcess) -> TopicProgram:
    return fresh_topic(broker, 2)


def test_all_partitions_are_read_in_the_order_of_their_offsets(topic: TopicProgram) -> None:
    fill(topic, 3)

    assert topic.payloads() == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert topic.payloads("--partition", "1") == ["b0", "b1", "b2"]
    assert topic.payloads("--partition", "1", "--partition", "0", "--count", "4") == [
        "b0", "b1", "b2", "a0",
    ]  # fmt: skip


def test_an_object_a_line(topic: TopicProgram) -> None:
    before = datetime.now(UTC)
    kinds = pair_bytes(
        ValueKind.STRING, b"n", ValueKind.INT32, (-7).to_bytes(4, "little", signed=True)
    )
    kinds += pair_bytes(ValueKind.RAW, b"\x01\xff", ValueKind.RAW, b"\xfe")
    messages = [
        Message(b"text", id=1, headers=kinds),
        Message(b"\xff", id=(1 << 128) - 1, headers=b"garbage"),
    ]
    with topic.client() as client:
        client.send(topic.stream, "orders", Partitioning.partition(1), messages)

    first, second = topic.consume()

    stamp = first.pop("timestamp")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", stamp)
    assert before <= datetime.fromisoformat(stamp) <= datetime.now(UTC)
    assert first == {
        "partition": 1,
        "offset": 0,
        "id": "0" * 31 + "1",
        "headers": {"n": -7, "raw:01ff": {"base64": "/g=="}},
        "payload": "text",
        "payload_encoding": "utf8",
    }
    assert second["id"] == "f" * 32
    assert (second["headers"], second["headers_base64"]) == (None, "Z2FyYmFnZQ==")
    assert (second["payload"], second["payload_encoding"]) == ("/w==", "base64")


def test_text_moves_no_cursor(topic: TopicProgram) -> None:
    topic.produce(b"\x1b[2Jred \xff\r\0\xc3\xb6\n", "--partition", "0")

    done = topic.run("consume")

    assert re.fullmatch(rb"0  0  [-\dT:.]{26}Z  (.*)\n", done.stdout)
    assert done.stdout.endswith(b"  \\x1b[2Jred \\xff\\r\\x00\xc3\xb6\n")


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("first", ["a0", "a1", "a2", "b0", "b1", "b2"]),
        ("last", ["a2", "b2"]),
        ("next", []),
        ("1", ["a1", "a2", "b1", "b2"]),
        ("99", []),
        ("1970-01-01", ["a0", "a1", "a2", "b0", "b1", "b2"]),
        ("2999-01-01T00:00:00+02:00", []),
    ],
)
def test_where_reading_begins(topic: TopicProgram, start: str, found: list[str]) -> None:
    fill(topic, 3)

    assert topic.payloads("--from", start) == found


def test_a_time_is_exact_to_the_microsecond(topic: TopicProgram) -> None:
    topic.produce(b"a\n", "--partition", "0")
    topic.produce(b"b\n", "--partition", "0")
    moment = topic.consume()[1]["timestamp"]

    assert topic.payloads("--from", moment) == ["b"]


def test_an_empty_topic_is_no_failure(topic: TopicProgram) -> None:
    for start_at in ("first", "last", "next", "7", "2020-01-01"):
        assert topic.payloads("--from", start_at) == []
    assert topic.payloads("--group", "g") == []


def test_following_ends_with_a_signal(topic: TopicProgram) -> None:
    with start(topic, "--follow", "--from", "next", "--output", "raw") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        numbers = count()
        while not readable(process.stdout.fileno(), 0.1):
            fill(topic, 1, start=next(numbers))
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()

    assert (process.returncode, err) == (0, b"")
    assert set(re.findall(rb"[ab]", out)) <= {b"a", b"b"}
    assert out.endswith(b"\n")


def test_a_reader_that_has_enough_ends_it_with_all_it_got_committed(topic: TopicProgram) -> None:
    lines = b"".join(b"%06d %s\n" % (number, b"x" * 200) for number in range(5000))
    topic.produce(lines, "--partition", "0")
    with start(topic, "--group", "g", "--output", "raw") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        got = process.stdout.read(100_000)
        process.stdout.close()
        err = process.stderr.read()
        process.wait()

    assert (process.returncode, err) == (0, b"")
    stored = committed(topic, "g", 0)
    assert stored is not None
    # All that was taken is committed; beyond it at most what a pipe (64 KiB) and a buffer hold.
    whole = got.count(b"\n")
    assert whole - 1 <= stored <= whole + (128 << 10) // 208
    assert topic.payloads("--group", "g")[0].startswith(f"{stored + 1:06d}")


def test_head_ends_it_quietly(topic: TopicProgram) -> None:
    fill(topic, 3)
    command = " ".join(f"'{part}'" for part in topic.command("consume", "--output", "raw"))

    for more in ("", "--follow"):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} {more} | head -n 1"],
            env=topic.environment,
            capture_output=True,
            timeout=PROGRAM_S,
            check=False,
        )

        assert (done.returncode, done.stdout, done.stderr) == (0, b"a0\n", b"")


def test_a_full_disk_is_a_failure_and_commits_nothing(topic: TopicProgram) -> None:
    fill(topic, 3)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            topic.command("consume", "--group", "g"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=topic.environment,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["iggykube: No space left on device"]
    assert committed(topic, "g", 0) is None


def test_a_stdout_that_was_closed_reads_nothing(topic: TopicProgram) -> None:
    fill(topic, 1)
    command = " ".join(f"'{part}'" for part in topic.command("consume", "--group", "g"))

    done = subprocess.run(
        ["sh", "-c", f"{command} >&-"], env=topic.environment, stderr=subprocess.PIPE, check=False
    )

    assert done.returncode == 0
    assert done.stderr == b""
    assert committed(topic, "g", 0) is None


def test_a_reader_that_stands_still_can_be_interrupted(topic: TopicProgram) -> None:
    lines = (b"x" * 1000 + b"\n") * 1000
    topic.produce(lines, "--partition", "0")
    with start(topic, "--group", "g", "--output", "raw") as process:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        wait_until(lambda: is_full(pipe), "the pipe is full")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: committed(topic, "g", 0) is not None, "a commit")
        rest = process.stdout.read()

    assert process.returncode == 0
    assert committed(topic, "g", 0) == len(rest) // 1001 - 1


def is_full(pipe: int) -> bool:
    """Whether no whole piece goes in any more."""
    waiting = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - PIECE_BYTES_MAX


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--partition", "2"], "no partition 2: it has 2, from 0 on"),
        (["--group", "g" * 255], ""),
    ],
)
def test_what_is_not_there_is_told(topic: TopicProgram, arguments: list[str], words: str) -> None:
    done = topic.run("consume", *arguments)

    assert done.returncode == (1 if words else 0)
    assert words in done.stderr.decode()


def test_who_may_only_poll_reads_partitions_that_are_named(topic: TopicProgram) -> None:
    fill(topic, 1)
    topic.log_in_with(poll_messages=True)

    named = topic.run("consume", "--partition", "1", "--output", "raw")
    missing = topic.run("consume", "--partition", "7")
    unnamed = topic.run("consume")

    assert (named.returncode, named.stdout) == (0, b"b0\n")
    assert [done.returncode for done in (missing, unnamed)] == [1, 1]
    assert b"lacks the permission" in unnamed.stderr


def test_following_reads_partitions_that_are_added(topic: TopicProgram) -> None:
    fill(topic, 1)
    with start(topic, "--follow", "--from", "last", "--output", "raw") as process:
        assert process.stdout is not None
        assert process.stdout.readline() + process.stdout.readline() == b"a0\nb0\n"
        with topic.client() as client:
            client.create_partitions(topic.stream, "orders", 1)
        topic.produce(b"new\n", "--partition", "2")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()

    assert (process.returncode, rest) == (0, b"")


def test_a_topic_that_is_purged_is_told(topic: TopicProgram) -> None:
    fill(topic, 3)
    with start(topic, "--follow", "--output", "raw") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(6):
            process.stdout.readline()
        with topic.client() as client:
            client.purge_topic(topic.stream, "orders")
        told = process.stderr.read().decode()

    assert process.returncode == 1
    assert "ends before offset 3" in told
    assert "purged or made anew" in told


def test_a_missing_topic_is_told(topic: TopicProgram) -> None:
    for more in ([], ["--group", "g"]):
        done = run_program(
            "consume", "--servers", topic.broker.address, topic.stream, "nothing", *more,
            environment=topic.environment,
        )  # fmt: skip

        assert (done.returncode, done.stdout) == (1, b"")
        assert len(done.stderr.splitlines()) == 1
        assert b"nothing" in done.stderr


def test_a_broker_that_goes_ends_it_in_a_line(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1).start()
    try:
        topic = TopicProgram(broker, "s", 2)
        with start(topic, "--group", "g", "--follow", "--output", "raw") as process:
            wait_until(lambda: members(topic, "g") == 1, "a member")
            broker.kill()
            assert process.stderr is not None
            told = process.stderr.read().decode()
    finally:
        broker.end()

    assert process.returncode == 1
    assert len(told.splitlines()) == 1
    assert "Traceback" not in told


def test_messages_of_any_size_come_through(topic: TopicProgram, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(5 << 20))

    for _ in range(4):
        topic.produce(b"", "--partition", "0", "--file", large)
    done = topic.run("consume", "--output", "raw", "--null")

    assert done.stdout == (large.read_bytes() + b"\0") * 4


def test_it_needs_no_home(topic: TopicProgram) -> None:
    done = subprocess.run(
        topic.command("consume"),
        env=topic.environment | {"HOME": "/nonexistent"},
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
