"""What clients of a full disk are told, and when it takes messages again."""

from __future__ import annotations

from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from small_disk import wait_until
from stored import FIRST

NO_ROOM_FOR_AN_OFFSET = ErrorCode.CANNOT_OPEN_CONSUMER_OFFSETS_FILE
NO_ROOM = (ErrorCode.CANNOT_APPEND_MESSAGE, ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE)


def make_topic(client: Client, *names: str) -> None:
    """Topics of one partition and small segments, in a stream `s`."""
    client.create_stream("s")
    for name in names:
        client.create_topic("s", name, 1, {"segment_size": 1 << 20})


def send_until_taken(client: Client, topic: str, payload: bytes) -> int:
    """Send until the disk has room; the offset."""
    offsets: list[int] = []

    def taken() -> bool:
        try:
            offsets.append(client.send("s", topic, FIRST, [Message(payload)]).base_offset)
        except ClientError as refused:
            assert refused.code in NO_ROOM
            return False
        return True

    wait_until(taken)
    return offsets[0]
