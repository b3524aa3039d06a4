"""Requests that wait at the server, against the published vectors and the recorded client."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import RequestHeader
from iggy_wire.primitives import Consumer, Identifier, PollingStrategy
from iggy_wire.replies_waiting import Fetched, PartitionRoute, ReadyPartitions, Section
from iggy_wire.requests_messages import PollMessages
from iggy_wire.requests_waiting import (
    MARGIN_US,
    PARTITIONS_MAX,
    REPLY_BYTES_MIN,
    TIMEOUT_US_MAX,
    WAIT_US_MAX,
    FetchMessages,
    FetchTarget,
    GetPartitionRoute,
    PollMessagesDeferred,
    WaitForMessages,
    WaitTarget,
)

VECTORS: dict[str, bytes] = {
    name: bytes.fromhex(body)
    for name, body in json.loads(
        (Path(__file__).parent / "vectors" / "p12-waiting.json").read_text()
    ).items()
}
LAYOUTS: dict[str, Any] = {
    "deferred_polls": PollMessagesDeferred,
    "fetches": FetchMessages,
    "fetch_replies": Fetched,
    "routes_req": GetPartitionRoute,
    "routes_rep": PartitionRoute,
}
SECOND_US = 1_000_000
TOPIC = (Consumer.plain(1), Identifier("shop"), Identifier("orders"))
POLL = PollMessages(*TOPIC, 2, PollingStrategy.next(), 100)
DEFERRED = PollMessagesDeferred(POLL, SECOND_US, 1, 1 << 20, 11 * SECOND_US)
TARGET = FetchTarget(1, PollingStrategy.offset(41), 1000, incarnation=11, owner_generation=0)
FETCH = FetchMessages(*TOPIC, SECOND_US, 2 * SECOND_US, 1, 100, 1000, False, (TARGET,))
WAIT = WaitForMessages(*TOPIC, SECOND_US, 2 * SECOND_US, (WaitTarget(1, PollingStrategy.next()),))


@pytest.mark.parametrize("name", [one for one in VECTORS if one.split("/")[0] in LAYOUTS])
def test_a_vector_encodes_to_the_same_bytes(name: str) -> None:
    body = VECTORS[name]

    assert LAYOUTS[name.split("/")[0]].decode(body).encode() == body


@pytest.mark.parametrize("name", [one for one in VECTORS if one.startswith("refused_")])
def test_a_refused_vector_is_refused(name: str) -> None:
    layout = LAYOUTS[name.split("/")[0].removeprefix("refused_")]

    with pytest.raises(WireError):
        layout.decode(VECTORS[name])


def test_a_vector_says_what_it_says() -> None:
    deferred = PollMessagesDeferred.decode(VECTORS["deferred_polls/group_next_with_commit"])
    fetch = FetchMessages.decode(VECTORS["fetches/group_three_targets_with_commit"])
    reply = Fetched.decode(VECTORS["fetch_replies/ok_section_beside_error_sections"])

    topic = (Consumer.group("orders-group"), Identifier(1), Identifier("orders"), 2)
    poll = PollMessages(*topic, PollingStrategy.next(), 100, True)
    assert deferred == PollMessagesDeferred(poll, 5_000_000, 1, 1 << 20, 6_000_000)
    assert fetch.consumer == Consumer.group(9) and fetch.auto_commit
    assert (fetch.min_count, fetch.count, fetch.max_bytes) == (1, 1000, 1 << 20)
    assert fetch.targets[2] == FetchTarget(4, PollingStrategy.offset(7), 1 << 19, 11, 4)
    assert reply.sections == (
        Section(1, ErrorCode.NOT_PRIMARY),
        Section(2, 0, 7, 1, 11, 4, 42, 7, 308),
        Section(4, ErrorCode.TRANSIENT_NOT_ACCEPTED),
    )


@pytest.mark.parametrize("name", [one for one in VECTORS if one.startswith("cancellations/")])
def test_a_cancellation_is_a_header_with_the_number_of_the_request(name: str) -> None:
    header = RequestHeader.decode(VECTORS[name])

    assert header.code == Command.CANCEL_DEFERRED
    assert header.request in (21, 22)


@pytest.mark.parametrize(
    ("request_", "changes", "code"),
    [
        (DEFERRED, {"wait_us": WAIT_US_MAX + 1}, ErrorCode.INVALID_COMMAND),
        (DEFERRED, {"timeout_us": TIMEOUT_US_MAX + 1}, ErrorCode.INVALID_COMMAND),
        (DEFERRED, {"timeout_us": SECOND_US + MARGIN_US - 1}, ErrorCode.INVALID_COMMAND),
        (DEFERRED, {"wait_us": 0, "timeout_us": 0}, ErrorCode.INVALID_COMMAND),
        (DEFERRED, {"min_count": 0}, ErrorCode.INVALID_MESSAGES_COUNT),
        (DEFERRED, {"min_count": 101}, ErrorCode.INVALID_MESSAGES_COUNT),
        (DEFERRED, {"max_bytes": REPLY_BYTES_MIN - 1}, ErrorCode.INVALID_SIZE_BYTES),
        (FETCH, {"wait_us": 0, "timeout_us": MARGIN_US - 1}, ErrorCode.INVALID_COMMAND),
        (FETCH, {"min_count": 101}, ErrorCode.INVALID_MESSAGES_COUNT),
        (FETCH, {"max_bytes": 999}, ErrorCode.INVALID_SIZE_BYTES),
        (FETCH, {"targets": ()}, ErrorCode.INVALID_COMMAND),
        (FETCH, {"targets": (TARGET, TARGET)}, ErrorCode.INVALID_COMMAND),
        (FETCH, {"targets": (TARGET,) * (PARTITIONS_MAX + 1)}, ErrorCode.INVALID_COMMAND),
        (WAIT, {"wait_us": WAIT_US_MAX + 1}, ErrorCode.INVALID_COMMAND),
        (WAIT, {"targets": WAIT.targets * 2}, ErrorCode.INVALID_COMMAND),
        (WAIT, {"targets": (WaitTarget(1, PollingStrategy.last()),)}, ErrorCode.INVALID_COMMAND),
    ],
)
def test_a_limit_is_part_of_the_layout(
    request_: Any, changes: dict[str, Any], code: ErrorCode
) -> None:
    layout = type(request_)
    assert layout.decode(request_.encode()) == request_

    with pytest.raises(WireError) as refused:
        layout.decode(msgspec.structs.replace(request_, **changes).encode())

    assert refused.value.code == code


@pytest.mark.parametrize("layout", [DEFERRED, FETCH, WAIT], ids=lambda one: type(one).__name__)
def test_a_body_is_neither_cut_off_nor_longer(layout: Any) -> None:
    body = layout.encode()

    for wrong in (*(body[:end] for end in range(len(body))), body + b"\0"):
        with pytest.raises(WireError):
            type(layout).decode(wrong)


def test_the_longest_wait_is_taken() -> None:
    longest = msgspec.structs.replace(DEFERRED, wait_us=WAIT_US_MAX, timeout_us=TIMEOUT_US_MAX)
    at_once = msgspec.structs.replace(DEFERRED, wait_us=0, timeout_us=1)

    for one in (longest, at_once):
        assert PollMessagesDeferred.decode(one.encode()) == one


def test_ready_partitions_survive_the_way_out_and_back() -> None:
    for ids in ((), (0, 7, 999)):
        assert ReadyPartitions.decode(ReadyPartitions(ids).encode()).partition_ids == ids
