"""`iggykube consume` as a member of a group, with a real broker process."""

import signal
import time
from itertools import count

import pytest

from broker_process import BrokerProcess, readable
from cli_program import PROGRAM_S, TopicProgram, fresh_topic
from consumers import fill, members, start
from waiting import wait_until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(broker: BrokerProcess) -> TopicProgram:
    return fresh_topic(broker, 2)


def test_a_group_goes_on_where_it_ended(topic: TopicProgram) -> None:
    fill(topic, 3)

    first = topic.payloads("--group", "g", "--count", "4")
    second = topic.payloads("--group", "g")
    again = topic.payloads("--group", "g", "--from", "first")

    assert first == ["a0", "a1", "a2", "b0"]
    assert (second, again) == (["b1", "b2"], [])
    assert members(topic, "g") == 0


def test_a_new_group_may_begin_elsewhere(topic: TopicProgram) -> None:
    fill(topic, 3)

    assert topic.payloads("--group", "g", "--from", "last") == ["a2", "b2"]
    assert topic.payloads("--group", "h", "--from", "2") == ["a2", "b2"]


def test_without_a_group_nothing_is_stored(topic: TopicProgram) -> None:
    fill(topic, 1)

    topic.payloads()

    with topic.client() as client:
        assert client.get_groups(topic.stream, "orders") == ()
        assert client.get_offset(0, topic.stream, "orders", 0) is None


def test_two_members_share_the_partitions(topic: TopicProgram) -> None:
    with start(topic, "--group", "g", "--follow", "--output", "raw") as one:
        wait_until(lambda: members(topic, "g") == 1, "the first member")
        with start(topic, "--group", "g", "--follow", "--output", "raw") as two:
            wait_until(lambda: members(topic, "g") == 2, "the second member")
            time_limit = time.monotonic() + PROGRAM_S
            assert one.stdout is not None
            assert two.stdout is not None
            # Until the first has noticed, both partitions may still be its own.
            numbers = count()
            while not readable(two.stdout.fileno(), 0.2):
                assert time.monotonic() < time_limit
                fill(topic, 1, start=next(numbers))
            two.send_signal(signal.SIGTERM)
            second = two.stdout.read().split()
        one.send_signal(signal.SIGTERM)
        first = one.stdout.read().split()

    assert (one.returncode, two.returncode) == (0, 0)
    everything = first + second + [line.encode() for line in topic.payloads("--group", "g")]
    last = next(numbers) - 1
    assert sorted(set(everything)) == sorted(
        f"{letter}{number}".encode() for letter in "ab" for number in range(last + 1)
    )


def test_others_have_everything(topic: TopicProgram) -> None:
    with (
        start(topic, "--group", "g", "--follow") as one,
        start(topic, "--group", "g", "--follow") as two,
    ):
        wait_until(lambda: members(topic, "g") == 2, "two members for two partitions")
        third = topic.run("consume", "--group", "g")
        for process in (one, two):
            process.send_signal(signal.SIGTERM)

    assert (third.returncode, third.stdout) == (0, b"")
    assert b"group g: other members have all partitions" in third.stderr
