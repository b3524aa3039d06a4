"""Which partitions `iggykube produce` sends to, by keys or in turn, with a real broker process."""

import json

import pytest

from broker_process import USERNAME, BrokerProcess
from cli_program import TopicProgram, fresh_topic
from iggy_wire.primitives import partition_of_key

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(broker: BrokerProcess) -> TopicProgram:
    return fresh_topic(broker, 3)


def test_batches_are_dealt_to_the_partitions_in_turn(topic: TopicProgram) -> None:
    lines = b"".join(b"%d\n" % number for number in range(30))

    report = topic.produce(lines, "--batch-messages", "10", "--linger", "1m")

    assert sorted(report["partitions"]) == ["0", "1", "2"]
    assert {place["last"] for place in report["partitions"].values()} == {9}


def test_one_key_is_one_partition_and_headers_go_along(topic: TopicProgram) -> None:
    topic.produce(b"a\nb\n", "--key", "ada", "--header", "k=v", "--header", "a=b=c")

    lines = topic.consume()

    assert {line["partition"] for line in lines} == {partition_of_key(b"ada", 3)}
    assert {json.dumps(line["headers"]) for line in lines} == {'{"a": "b=c", "k": "v"}'}


def test_a_field_is_the_key(topic: TopicProgram) -> None:
    values = ["ada", "bob", 7, True, "ö"]
    lines = [json.dumps({"customer": value, "n": n}) for n in range(4) for value in values]

    topic.produce("\n".join(lines).encode(), "--key-field", "customer")

    keys = {"ada": b"ada", "bob": b"bob", 7: b"7", True: b"true", "ö": "ö".encode()}
    found = topic.consume()
    assert len(found) == 20
    for line in found:
        value = json.loads(line["payload"])["customer"]
        assert line["partition"] == partition_of_key(keys[value], 3)
    assert [json.loads(line["payload"])["n"] for line in found if '"ada"' in line["payload"]] == [
        0, 1, 2, 3,
    ]  # fmt: skip


def test_who_may_only_send_does_so_with_any_key(topic: TopicProgram) -> None:
    topic.log_in_with(send_messages=True)

    topic.produce(b'{"k": "ada"}\n{"k": "bob"}\n{"k": "cleo"}\n', "--key-field", "k")

    topic.username = USERNAME
    for line in topic.consume():
        key = json.loads(line["payload"])["k"].encode()
        assert line["partition"] == partition_of_key(key, 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"other": 1}', "no text, number or truth value"),
        (b'{"k": null}', "no text, number or truth value"),
        (b'{"k": {}}', "no text, number or truth value"),
        (b'{"k": ""}', "1 to 255 bytes"),
        (b'["k"]', "no text, number or truth value"),
    ],
)
def test_a_line_without_its_key_ends_it_behind_those_before(
    topic: TopicProgram, line: bytes, words: str
) -> None:
    given = b'{"k": 1}\n' + line + b'\n{"k": 2}\n'

    done = topic.run("produce", "--key-field", "k", "--output", "json", stdin=given)

    report = json.loads(done.stdout)
    assert (done.returncode, report["acknowledged"]) == (1, 1)
    told = done.stderr.decode()
    assert "message 2 of the input: --key-field 'k'" in told
    assert words in told
    assert told.endswith("; 1 message acknowledged\n")
    assert len(told.splitlines()) == 1
    assert words in report["error"]
