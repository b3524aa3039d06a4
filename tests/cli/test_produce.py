"""`iggykube produce` with a real broker process."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from array import array
from pathlib import Path
from typing import IO

import pytest

from broker_process import PASSWORD, BrokerProcess
from cli_program import TopicProgram, clean_environment, fresh_topic, run_program
from tls_front import authority, tls_front
from waiting import wait_until

MEMORY_KB_MAX = 160 << 10  # for 200 MiB of input
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(broker: BrokerProcess) -> TopicProgram:
    return fresh_topic(broker, 3)


def test_each_line_is_a_message_and_all_are_acknowledged(topic: TopicProgram) -> None:
    report = topic.produce(b"one\ntwo\n\nthree", "--partition", "1")

    assert report["acknowledged"] == 3
    assert report["left_out"] == 1
    assert report["partitions"] == {"1": {"first": 0, "last": 2}}
    assert (report["error"], report["unanswered"]) == ("", 0)
    assert topic.payloads() == ["one", "two", "three"]


def test_people_are_told_in_one_line(topic: TopicProgram) -> None:
    done = topic.run("produce", stdin=b"one\n\ntwo\n")

    assert done.stdout == b"2 messages acknowledged, 1 empty line left out\n"
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_batch_is_full_by_its_bytes_too(topic: TopicProgram) -> None:
    lines = (b"x" * 599 + b"\n") * 6

    report = topic.produce(lines, "--batch-bytes", "1200B", "--linger", "1m")

    assert {place["last"] for place in report["partitions"].values()} == {1}


def test_records_may_end_with_nul_and_hold_anything_else(topic: TopicProgram) -> None:
    topic.produce(b"two\nlines\0\xff\xfe\0", "--null", "--partition", "0")

    first, second = topic.consume()
    raw = topic.run("consume", "--output", "raw", "--null")

    assert (first["payload"], first["payload_encoding"]) == ("two\nlines", "utf8")
    assert (second["payload"], second["payload_encoding"]) == ("//4=", "base64")
    assert raw.stdout == b"two\nlines\0\xff\xfe\0"


def test_files_are_read_in_order_or_sent_as_a_whole(topic: TopicProgram, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb\n")
    second.write_bytes(b"c\n")

    topic.produce(b"", "--partition", "0", first, second)
    topic.produce(b"", "--partition", "0", "--file", first, second)

    assert topic.payloads() == ["a", "b", "c", "a\nb\n", "c\n"]


@pytest.mark.parametrize("partition", ["3", "4294967295"])
def test_a_refusal_says_how_many_were_acknowledged(topic: TopicProgram, partition: str) -> None:
    done = topic.run("produce", "--partition", partition, stdin=b"a\nb\n")

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.endswith(b"; 0 messages acknowledged\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_topic_is_told(broker: BrokerProcess, topic: TopicProgram) -> None:
    place = ["--servers", broker.address, topic.stream, "nothing"]
    for more in ([], ["--key-field", "k"]):
        done = run_program(
            "produce", *place, *more, environment=topic.environment, stdin=b'{"k": 1}\n'
        )

        assert (done.returncode, done.stdout) == (1, b"")
        assert b"nothing" in done.stderr


def start(topic: TopicProgram, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        topic.command("produce", "--output", "json", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=topic.environment,
    )


def stored(topic: TopicProgram) -> int:
    with topic.client() as client:
        details = client.get_topic(topic.stream, "orders")
    assert details is not None
    return details.topic.messages_count


def test_lines_go_out_while_more_are_awaited(topic: TopicProgram) -> None:
    with start(topic) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nhalf")
        process.stdin.flush()
        wait_until(lambda: stored(topic) == 2, "two messages")
        process.stdin.write(b" a line")
        process.stdin.close()
        assert process.wait() == 0

    assert sorted(topic.payloads()) == ["a", "b", "half a line"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sends_what_was_read_and_ends(topic: TopicProgram, number: signal.Signals) -> None:
    with start(topic, "--linger", "10m", "--batch-messages", "2") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"a\nb\nc\nhalf")
        process.stdin.flush()
        wait_until(lambda: stored(topic) == 2, "the first batch")
        process.send_signal(number)
        report = json.loads(process.stdout.read())

    assert process.returncode == 0
    assert (report["acknowledged"], report["interrupted"]) == (3, True)
    assert sorted(topic.payloads()) == ["a", "b", "c"]


def test_a_broker_that_goes_is_told_with_the_count(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1).start()
    try:
        topic = TopicProgram(broker, "s", 1)
        with start(topic, "--batch-messages", "2", "--linger", "10m") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(b"a\nb\n")
            process.stdin.flush()
            wait_until(lambda: stored(topic) == 2, "the first batch")
            broker.kill()
            process.stdin.write(b"c\nd\n")
            process.stdin.close()
            report, told = json.loads(process.stdout.read()), process.stderr.read().decode()
    finally:
        broker.end()

    assert process.returncode == 1
    assert report["acknowledged"] == 2
    assert report["error"] in told
    assert "2 messages acknowledged" in told
    assert len(told.splitlines()) == 1


def test_a_second_signal_ends_it_at_once_and_says_what_is_open(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=1).start()
    try:
        topic = TopicProgram(broker, "s", 1)
        with start(topic, "--batch-messages", "2", "--linger", "10m") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"a\nb\n")
            process.stdin.flush()
            wait_until(lambda: stored(topic) == 2, "the first batch")
            os.killpg(broker.pid, signal.SIGSTOP)
            process.stdin.write(b"c\nd\n")
            process.stdin.flush()
            wait_until(
                lambda: not unread(process.stdin) and is_asleep(process.pid),
                "the second batch was read and is on its way",
            )
            process.send_signal(signal.SIGINT)
            wait_until(
                lambda: not has_pending(process.pid) and is_asleep(process.pid),
                "the first signal was taken",
            )
            process.send_signal(signal.SIGINT)
            report = json.loads(process.stdout.read())
    finally:
        broker.kill()

    assert process.returncode == 130
    assert (report["acknowledged"], report["unanswered"]) == (2, 2)
    assert "interrupted" in report["error"]


def unread(pipe: IO[bytes] | None) -> int:
    """Bytes that nobody has read yet."""
    assert pipe is not None
    waiting = array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, waiting)
    return waiting[0]


def is_asleep(pid: int) -> bool:
    """Whether its main thread waits for something."""
    return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def has_pending(pid: int) -> bool:
    """Whether SIGINT waits to be taken."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s+(\w+)$", status, re.MULTILINE)
    return any(int(mask, 16) & 1 << (signal.SIGINT - 1) for mask in masks)


def test_a_broker_that_is_not_there_is_told_in_a_line(topic: TopicProgram) -> None:
    done = run_program(
        "produce", "--servers", "127.0.0.1:1", "s", "t", environment=topic.environment, stdin=b"a"
    )

    assert (done.returncode, done.stdout) == (1, b"")
    assert b"cannot connect to 127.0.0.1:1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_next_server_is_tried(topic: TopicProgram) -> None:
    servers = f"127.0.0.1:1,{topic.broker.address}"

    done = run_program(
        "produce", "--servers", servers, topic.stream, "orders",
        environment=topic.environment, stdin=b"a",
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, b"1 message acknowledged\n")


def test_a_closed_stdin_is_an_empty_one(topic: TopicProgram) -> None:
    command = " ".join(f"'{part}'" for part in topic.command("produce"))

    done = subprocess.run(
        ["sh", "-c", f"{command} <&-"], env=topic.environment, capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, b"0 messages acknowledged\n")


FEED = """
import sys
for _ in range(200):
    sys.stdout.buffer.write((b"x" * 1023 + b"\\n") * 1024)
"""
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def test_input_is_never_held_as_a_whole(topic: TopicProgram) -> None:
    with subprocess.Popen([sys.executable, "-c", FEED], stdout=subprocess.PIPE) as feeder:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *topic.command("produce")],
            stdin=feeder.stdout,
            capture_output=True,
            env=topic.environment,
            check=True,
        )

    assert done.stdout == b"204,800 messages acknowledged\n"
    assert int(done.stderr) < MEMORY_KB_MAX


def test_a_token_and_a_password_file_let_in_and_appear_nowhere(
    topic: TopicProgram, tmp_path: Path
) -> None:
    with topic.client() as client:
        token = client.create_access_token("cli")
    secret, password = tmp_path / "token", tmp_path / "password"
    secret.write_text(token + "\n")
    password.write_text(PASSWORD + "\n")
    place = ["--servers", topic.broker.address, topic.stream, "orders"]

    by_token = run_program("produce", *place, "--token-file", secret, stdin=b"a")
    by_variable = run_program(
        "produce", *place, stdin=b"a", environment=clean_environment(IGGY_TOKEN=token)
    )
    by_password = run_program(
        "produce", *place, "--username", "iggy", "--password-file", password, stdin=b"a"
    )
    wrong = run_program(
        "produce", *place, "--username", "ig", "--password-file", password, stdin=b"a"
    )

    assert [done.returncode for done in (by_token, by_variable, by_password, wrong)] == [0, 0, 0, 1]
    assert b"INVALID_CREDENTIALS" in wrong.stderr
    assert PASSWORD.encode() not in wrong.stderr


def test_it_speaks_tls_and_checks_whom_it_speaks_to(topic: TopicProgram, tmp_path: Path) -> None:
    known, other = authority(tmp_path / "a", "127.0.0.1"), authority(tmp_path / "b", "127.0.0.1")
    with tls_front(topic.broker.address, known) as front:
        place = ["--servers", front.address, topic.stream, "orders", "--tls"]
        good, bad = (
            run_program(
                "produce", *place, "--ca", one.certificate,
                environment=topic.environment, stdin=b"a",
            )
            for one in (known, other)
        )  # fmt: skip
        read = run_program(
            "consume", *place, "--ca", known.certificate, "--output", "raw",
            environment=topic.environment,
        )  # fmt: skip

    assert (good.returncode, good.stdout) == (0, b"1 message acknowledged\n")
    assert (bad.returncode, bad.stdout) == (1, b"")
    assert b"certificate" in bad.stderr
    assert len(bad.stderr.splitlines()) == 1
    assert read.stdout == b"a\n"
