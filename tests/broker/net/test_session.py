"""What a request must satisfy before it is looked at, and how retries of changes are recognised."""

from __future__ import annotations

import asyncio

import pytest

from iggy_broker.errors import Reject
from iggy_broker.net.session import (
    REPLIES_KEPT,
    SENDS_KEPT,
    ReplyMemory,
    Session,
    checksum_matches,
)
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    EvictionHeader,
    EvictionReason,
    ReplyHeader,
    RequestHeader,
    frame_kind,
)
from iggy_wire.kernel import xxh3_64

CLIENT = bytes(range(1, 17))


def header(operation: int, **fields: int | bytes) -> RequestHeader:
    right: dict[str, int | bytes] = {"client": CLIENT, "request": 1, "session": 5}
    if operation == Operation.REGISTER:
        right |= {"request": 0, "session": 0}
    return RequestHeader(operation, **(right | fields))  # type: ignore[arg-type]


def session(*, logged_in: bool) -> Session:
    made = Session(client_number=1, address="")
    if logged_in:
        made.bind(client=CLIENT, number=5, user_id=0)
    return made


def outcome(refused: bytes | None) -> ErrorCode | EvictionReason | None:
    if refused is None:
        return None
    if frame_kind(refused) == 13:
        return EvictionReason(EvictionHeader.decode(refused).reason)
    return ErrorCode(ReplyHeader.decode(refused).status)


INVALID = ErrorCode.INVALID_COMMAND
NOBODY = EvictionReason.NO_SESSION
MALFORMED = EvictionReason.MALFORMED_LOGIN

# operation and fields, then the outcome before and after login
CASES = [
    (header(Operation.NON_REPLICATED, code=Command.PING), None, None),
    (header(Operation.NON_REPLICATED, code=Command.PING, request=0, session=0), None, None),
    (header(Operation.NON_REPLICATED, code=Command.GET_STREAMS), ErrorCode.UNAUTHENTICATED, None),
    (header(Operation.NON_REPLICATED, code=9999), ErrorCode.UNAUTHENTICATED, None),
    (header(Operation.NON_REPLICATED, code=Command.LEGACY_LOGIN), MALFORMED, MALFORMED),
    (header(Operation.NON_REPLICATED, code=Command.LEGACY_LOGIN_WITH_TOKEN), MALFORMED, MALFORMED),
    (header(Operation.REGISTER), None, None),
    (header(Operation.REGISTER, session=1), INVALID, INVALID),
    (header(Operation.REGISTER, request=1), INVALID, INVALID),
    (header(Operation.LOGOUT), None, None),
    (header(Operation.LOGOUT, session=0), INVALID, INVALID),
    (header(Operation.CREATE_STREAM), NOBODY, None),
    (header(Operation.CREATE_STREAM, session=0), NOBODY, INVALID),
    (header(Operation.CREATE_STREAM, request=0), NOBODY, INVALID),
    (header(Operation.SEND_MESSAGES), NOBODY, None),
    (header(Operation.SEND_MESSAGES, session=0), NOBODY, INVALID),
    (header(64), NOBODY, EvictionReason.INVALID_OPERATION),
    (header(127), NOBODY, EvictionReason.INVALID_OPERATION),
    (header(0), INVALID, INVALID),
    (header(4), INVALID, INVALID),
    (header(255), INVALID, INVALID),
    (header(Operation.CREATE_STREAM, client=bytes(16)), INVALID, INVALID),
    (header(Operation.CREATE_STREAM, command=8), INVALID, INVALID),
    (
        header(Operation.CREATE_STREAM, request_checksum=b"x" * 16),
        ErrorCode.INVALID_FORMAT,
        ErrorCode.INVALID_FORMAT,
    ),
]


@pytest.mark.parametrize(("request_header", "before", "after"), CASES)
def test_refusals_before_and_after_login(
    request_header: RequestHeader,
    before: ErrorCode | EvictionReason | None,
    after: ErrorCode | EvictionReason | None,
) -> None:
    assert outcome(session(logged_in=False).refuse(request_header, b"body")) == before
    assert outcome(session(logged_in=True).refuse(request_header, b"body")) == after


def test_a_checksum_is_absent_or_that_of_the_body() -> None:
    right = xxh3_64(b"body").to_bytes(16, "little")

    assert checksum_matches(header(Operation.CREATE_STREAM), b"body")
    assert checksum_matches(header(Operation.CREATE_STREAM, request_checksum=right), b"body")
    assert not checksum_matches(header(Operation.CREATE_STREAM, request_checksum=right), b"Body")
    high = right[:8] + b"\1" + bytes(7)  # all 128 bits count
    assert not checksum_matches(header(Operation.CREATE_STREAM, request_checksum=high), b"body")


def test_a_logout_forgets_all() -> None:
    logged_in = session(logged_in=True)
    logged_in.memory.keep(1, bytes(16), b"reply")

    logged_in.unbind()

    assert logged_in.user_id is None
    assert logged_in.memory.recall(header(Operation.CREATE_STREAM)) is None


def test_the_last_replies_are_repeated_and_older_ones_refused() -> None:
    memory = ReplyMemory()
    for number in range(1, REPLIES_KEPT + 2):
        request = header(Operation.CREATE_STREAM, request=number)
        assert memory.recall(request) is None
        memory.begin(number)
        memory.keep(number, request.request_checksum, b"reply %d" % number)

    assert memory.recall(header(Operation.CREATE_STREAM, request=2)) == b"reply 2"
    assert memory.recall(header(Operation.CREATE_STREAM, request=6)) == b"reply 6"
    oldest = memory.recall(header(Operation.CREATE_STREAM, request=1))
    assert oldest is ErrorCode.REQUEST_ALREADY_APPLIED


def test_who_takes_over_waits_for_the_change_that_is_served() -> None:
    async def work() -> None:
        memory = ReplyMemory()
        await memory.settled()
        memory.begin(1)
        waiting = asyncio.ensure_future(memory.settled())
        await asyncio.sleep(0)
        assert not waiting.done()
        memory.keep(1, bytes(16), b"reply")
        await waiting

    asyncio.run(work())


def test_another_body_under_a_used_number_is_refused() -> None:
    memory = ReplyMemory()
    memory.keep(9, b"a" * 16, b"r")

    same = header(Operation.CREATE_STREAM, request=9, request_checksum=b"a" * 16)
    unchecked = header(Operation.CREATE_STREAM, request=9)
    other = header(Operation.CREATE_STREAM, request=9, request_checksum=b"b" * 16)
    skipped = header(Operation.CREATE_STREAM, request=3)

    assert memory.recall(same) == b"r"
    assert memory.recall(unchecked) == b"r"
    assert memory.recall(other) is ErrorCode.REQUEST_ALREADY_APPLIED
    assert memory.recall(skipped) is ErrorCode.REQUEST_ALREADY_APPLIED


def test_the_last_sends_are_remembered_and_older_ones_refused() -> None:
    memory = ReplyMemory()
    for request in range(10, 10 + SENDS_KEPT + 1):
        assert memory.recall_send(request) is None
        memory.keep_send(request, str(request).encode())

    assert memory.recall_send(11) == b"11"
    with pytest.raises(Reject, match="REQUEST_TOO_OLD"):
        memory.recall_send(10)
    assert memory.recall_send(10 + SENDS_KEPT + 1) is None
