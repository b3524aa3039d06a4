"""Sessions on a certain shard, and refusals as values."""

from __future__ import annotations

from collections.abc import Callable

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import Client, ClientError
from iggy_wire.errors import ErrorCode

TRIES = 200  # the kernel deals connections out


def on_shard(
    broker: BrokerProcess, shard: int, username: str = USERNAME, password: str = PASSWORD
) -> Client:
    """A session that a certain shard serves. The caller closes it."""
    others = []
    try:
        for _ in range(TRIES):
            client = Client.connect(broker.address, username, password)
            if shard_of(client, broker.shards) == shard:
                return client
            others.append(client)
    finally:
        for other in others:
            other.close()
    raise AssertionError(f"no connection reached shard {shard}")


def shard_of(client: Client, shards: int) -> int:
    """The shard that accepted the connection: its numbers count up in steps of the shards."""
    return (client.get_me().client.client_id - 1) % shards


def code_of(doing: Callable[[], object]) -> ErrorCode | None:
    """The refusal of a call; None if it succeeds."""
    try:
        doing()
    except ClientError as refusal:
        return ErrorCode(refusal.code)
    return None
