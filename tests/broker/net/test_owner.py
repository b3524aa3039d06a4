"""What a shard serves of the frames that another shard checked, when the metadata moved between."""

from __future__ import annotations

from pathlib import Path

from iggy_broker.metadata.placement import pack
from iggy_broker.net.owner import ShardOwner
from iggy_wire import requests
from iggy_wire.batch import Message, build
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Polled
from iggy_wire.request_base import Request
from one_shard import Caller, with_broker

T = Identifier("t")


def frame_of(request: Request) -> memoryview:
    body = request.encode()
    operation = request.operation()
    code = request.command if operation == Operation.NON_REPLICATED else 0
    header = RequestHeader(
        operation, bytes(15) + b"1", HEADER_BYTES + len(body), request=1, session=9, code=code
    )
    return memoryview(bytearray(header.encode() + body))


def served(caller: Caller, packed: int, incarnation: int, request: Request) -> bytes:
    parts = ShardOwner(caller.services).serve_frame(packed, incarnation, frame_of(request))
    assert not hasattr(parts, "done")
    return b"".join(part if isinstance(part, bytes) else part.read() for part in parts)  # type: ignore[union-attr]


def poll_of(stream: str) -> requests.PollMessages:
    first = PollingStrategy.first()
    return requests.PollMessages(Consumer.plain(1), Identifier(stream), T, 0, first, 10)


def test_a_poll_whose_name_became_another_partition_s_is_refused(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        for name in ("mine", "secret"):
            await caller.stream(name)
            await caller.topic(name, "t")
        batch = bytes(build([Message(b"secret", id=1)], origin_timestamp_us=1))
        send = requests.SendMessages(Identifier("secret"), T, Partitioning.partition(0), 1, batch)
        incarnations = {
            placed.stream_id: placed.partition.incarnation
            for placed in caller.services.replica.state.placed()
        }
        served(caller, pack(1, 0, 0), incarnations[1], send)
        right = served(caller, pack(1, 0, 0), incarnations[1], poll_of("secret"))
        assert Polled.decode(right[HEADER_BYTES:]).count == 1

        # Permitted as stream 0, which was called so when the other shard looked.
        wrong = served(caller, pack(0, 0, 0), incarnations[0], poll_of("secret"))

        header = ReplyHeader.decode(wrong)
        assert (header.status, len(wrong)) == (ErrorCode.PARTITION_NOT_FOUND, HEADER_BYTES)

    with_broker(tmp_path, work)


def test_a_send_never_lands_in_another_topic_that_has_the_ids_now(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t")
        (old,) = caller.services.replica.state.placed()
        await caller.body(requests.DeleteTopic(Identifier("s"), T))
        await caller.topic("s", "t")
        (new,) = caller.services.replica.state.placed()
        assert old.partition.incarnation != new.partition.incarnation
        batch = bytes(build([Message(b"late", id=1)], origin_timestamp_us=1))
        send = requests.SendMessages(Identifier("s"), T, Partitioning.partition(0), 1, batch)

        # The other shard resolved it while the first topic was there.
        late = served(caller, pack(0, 0, 0), old.partition.incarnation, send)

        assert ReplyHeader.decode(late).status == ErrorCode.RESOURCE_NOT_FOUND
        partition = caller.services.partitions[pack(0, 0, 0)]
        assert partition.next_offset == 0
        again = served(caller, pack(0, 0, 0), new.partition.incarnation, send)
        assert ReplyHeader.decode(again).status == 0
        assert partition.next_offset == 1

    with_broker(tmp_path, work)
