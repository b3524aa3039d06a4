"""Every command against every flag, on a real broker with two shards: on live sessions, by TCP.

One user, whose permissions root changes before each round: they must count from the next request
on, also for sends and polls whose target the connection remembers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from access_cases import code_of, on_shard
from broker_process import BrokerProcess
from iggy_client import Client, ClientError
from iggy_wire.batch import Message, build
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from permission_matrix import GRANTS, MATRIX, is_enough, permissions_of

PASSWORD = "of-some-user"
PARTITIONS = 4  # both shards own some

Doing = Callable[[Client, "Place"], object]


@dataclass(frozen=True)
class Place:
    """The stream (with topic `t` and group `g`) that a round is about."""

    stream: str
    stream_id: int
    user: str


def send(client: Client, place: Place, partition_id: int = 0) -> int:
    batch = build([Message(b"x", id=1)], origin_timestamp_us=1)
    return client.send_batch(place.stream, "t", partition_id, batch)


def poll(client: Client, place: Place, partition_id: int = 0) -> object:
    return client.poll(place.stream, "t", partition_id, count=1)


# In an order in which what is removed is not needed any more. Root's own name or password is used
# where a command that is allowed would disturb: then it is refused otherwise.
COMMANDS: dict[Command, Doing] = {
    Command.PING: lambda client, place: client.ping(),
    Command.GET_ME: lambda client, place: client.get_me(),
    Command.GET_CLUSTER_METADATA: lambda client, place: client.get_cluster_metadata(),
    Command.DESCRIBE_OPTIONS: lambda client, place: client.describe_options(1),
    Command.GET_PERSONAL_ACCESS_TOKENS: lambda client, place: client.get_access_tokens(),
    Command.CREATE_PERSONAL_ACCESS_TOKEN: lambda client, place: client.create_access_token("ci"),
    Command.DELETE_PERSONAL_ACCESS_TOKEN: lambda client, place: client.delete_access_token("ci"),
    Command.GET_STATS: lambda client, place: client.get_stats(),
    Command.GET_CLIENT: lambda client, place: client.get_client(1),
    Command.GET_CLIENTS: lambda client, place: client.get_clients(),
    Command.GET_SNAPSHOT: lambda client, place: client.get_snapshot([4]),
    Command.GET_USER: lambda client, place: client.get_user(0),
    Command.GET_USERS: lambda client, place: client.get_users(),
    Command.CREATE_USER: lambda client, place: client.create_user(place.user, PASSWORD),
    Command.UPDATE_USER: lambda client, place: client.update_user(0),
    Command.DELETE_USER: lambda client, place: client.delete_user(0),
    Command.UPDATE_PERMISSIONS: lambda client, place: client.update_permissions(0, None),
    Command.CHANGE_PASSWORD: lambda client, place: client.change_password(0, "wrong", PASSWORD),
    Command.GET_STREAMS: lambda client, place: client.get_streams(),
    Command.GET_STREAM: lambda client, place: client.get_stream(place.stream),
    Command.CREATE_STREAM: lambda client, place: client.create_stream(place.stream),
    Command.UPDATE_STREAM: lambda client, place: client.update_stream(place.stream, place.stream),
    Command.GET_TOPICS: lambda client, place: client.get_topics(place.stream),
    Command.GET_TOPIC: lambda client, place: client.get_topic(place.stream, "t"),
    Command.CREATE_TOPIC: lambda client, place: client.create_topic(place.stream, "t", 1),
    Command.UPDATE_TOPIC: lambda client, place: client.update_topic(place.stream, "t", "t"),
    Command.CREATE_PARTITIONS: lambda client, place: client.create_partitions(place.stream, "t", 1),
    Command.GET_CONSUMER_GROUP: lambda client, place: client.get_group(place.stream, "t", "g"),
    Command.GET_CONSUMER_GROUPS: lambda client, place: client.get_groups(place.stream, "t"),
    Command.CREATE_CONSUMER_GROUP: lambda client, place: client.create_group(
        place.stream, "t", "g"
    ),
    Command.SEND_MESSAGES: send,
    Command.POLL_MESSAGES: poll,
    Command.STORE_CONSUMER_OFFSET: lambda client, place: client.store_offset(
        "me", place.stream, "t", 0, 0
    ),
    Command.GET_CONSUMER_OFFSET: lambda client, place: client.get_offset(
        "me", place.stream, "t", 0
    ),
    Command.DELETE_CONSUMER_OFFSET: lambda client, place: client.delete_offset(
        "me", place.stream, "t", 0
    ),
    Command.DELETE_CONSUMER_GROUP: lambda client, place: client.delete_group(
        place.stream, "t", "g"
    ),
    Command.DELETE_PARTITIONS: lambda client, place: client.delete_partitions(place.stream, "t", 1),
    Command.PURGE_TOPIC: lambda client, place: client.purge_topic(place.stream, "t"),
    Command.PURGE_STREAM: lambda client, place: client.purge_stream(place.stream),
    Command.DELETE_TOPIC: lambda client, place: client.delete_topic(place.stream, "t"),
    Command.DELETE_STREAM: lambda client, place: client.delete_stream(place.stream),
}
# Members of groups are tested with the groups, what only P12 has with that; the last is available
# to nobody.
ELSEWHERE = {
    Command.UPDATE_RESOURCE,
    Command.GET_PARTITION_ROUTE,
    Command.JOIN_CONSUMER_GROUP,
    Command.LEAVE_CONSUMER_GROUP,
    Command.SYNC_CONSUMER_GROUP,
    Command.DELETE_SEGMENTS,
    Command.FLUSH_UNSAVED_BUFFER,
}


@pytest.fixture(scope="module")
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture(scope="module")
def user(root: Client) -> str:
    name = f"user-{uuid.uuid4().hex[:8]}"
    root.create_user(name, PASSWORD)
    return name


@pytest.fixture(scope="module", params=[0, 1], ids=["shard 0", "shard 1"])
def caller(broker: BrokerProcess, user: str, request: pytest.FixtureRequest) -> Iterator[Client]:
    """The user's session on one shard or the other."""
    with on_shard(broker, request.param, user, PASSWORD) as client:
        yield client


def new_place(root: Client) -> Place:
    name = f"perm-{uuid.uuid4().hex[:8]}"
    stream = root.create_stream(name)
    root.create_topic(name, "t", PARTITIONS)
    root.create_group(name, "t", "g")
    return Place(name, stream.id, name)


def test_every_command_is_here() -> None:
    assert COMMANDS.keys() | ELSEWHERE == MATRIX.keys()


@pytest.mark.parametrize("grant", GRANTS, ids=" ".join)
def test_one_flag_alone(caller: Client, root: Client, user: str, grant: tuple[str, str]) -> None:
    place = new_place(root)
    root.update_permissions(user, permissions_of(grant, place.stream_id, 0))

    refused = {
        command
        for command, doing in COMMANDS.items()
        if code_of(lambda doing=doing: doing(caller, place)) == ErrorCode.UNAUTHORIZED  # type: ignore[misc]
    }

    assert refused == {command for command in COMMANDS if not is_enough(command, grant)}
    root.update_permissions(user, None)


def test_a_flag_is_taken_from_a_remembered_target(caller: Client, root: Client, user: str) -> None:
    place = new_place(root)
    everything = Permissions(GlobalPermissions(*[True] * 10))
    for _ in range(3):
        root.update_permissions(user, everything)
        for partition_id in range(PARTITIONS):
            for _ in range(20):  # beyond the point where a connection moves to the owner
                send(caller, place, partition_id)
                poll(caller, place, partition_id)
        root.update_permissions(user, None)
        for partition_id in range(PARTITIONS):
            for doing in (send, poll):
                with pytest.raises(ClientError, match="UNAUTHORIZED"):
                    doing(caller, place, partition_id)


def test_flags_of_one_place_say_nothing_of_another(caller: Client, root: Client, user: str) -> None:
    place, other = new_place(root), new_place(root)
    root.create_topic(place.stream, "u", 1)
    topics = (TopicPermissions(0, True, True, True, True),)
    root.update_permissions(
        user, Permissions(streams=(StreamPermissions(place.stream_id, topics=topics),))
    )

    send(caller, place)
    poll(caller, place)
    for doing in (send, poll):
        assert code_of(lambda doing=doing: doing(caller, other)) == ErrorCode.UNAUTHORIZED  # type: ignore[misc]
    batch = build([Message(b"x", id=1)], origin_timestamp_us=1)
    with pytest.raises(ClientError, match="UNAUTHORIZED"):
        caller.send_batch(place.stream, "u", 0, batch)
    root.update_permissions(user, None)


def test_what_does_not_exist_is_told_to_everybody(caller: Client, root: Client, user: str) -> None:
    place = new_place(root)
    root.update_permissions(user, None)
    missing = Place("no such stream", 0, "")

    assert caller.get_stream(missing.stream) is None
    assert caller.get_topics(missing.stream) == ()
    assert caller.get_topic(place.stream, "no such topic") is None
    expected = {
        Command.DELETE_STREAM: ErrorCode.STREAM_ID_NOT_FOUND,
        Command.CREATE_TOPIC: ErrorCode.STREAM_ID_NOT_FOUND,
        Command.PURGE_TOPIC: ErrorCode.STREAM_ID_NOT_FOUND,
        Command.SEND_MESSAGES: ErrorCode.RESOURCE_NOT_FOUND,
        Command.POLL_MESSAGES: ErrorCode.STREAM_ID_NOT_FOUND,
        Command.STORE_CONSUMER_OFFSET: ErrorCode.RESOURCE_NOT_FOUND,
        Command.GET_CONSUMER_GROUPS: ErrorCode.STREAM_ID_NOT_FOUND,
    }
    for command, code in expected.items():
        assert code_of(lambda one=command: COMMANDS[one](caller, missing)) == code  # type: ignore[misc]
    # But where stream and topic exist, the rest is for those who may.
    assert code_of(lambda: poll(caller, place, 99)) == ErrorCode.UNAUTHORIZED
    assert code_of(lambda: send(caller, place, 99)) == ErrorCode.UNAUTHORIZED
    group = code_of(lambda: caller.get_group(place.stream, "t", "no such group"))
    assert group == ErrorCode.UNAUTHORIZED


def test_missing_rights_are_told_before_wrong_options(
    caller: Client, root: Client, user: str
) -> None:
    place = new_place(root)
    root.update_permissions(user, None)

    refused = code_of(lambda: caller.create_topic(place.stream, "u", 1, {"no such key": "1"}))

    assert refused == ErrorCode.UNAUTHORIZED
    topics = root.get_topics(place.stream)
    assert [topic.name for topic in topics] == ["t"]


def test_one_s_own_user_and_password_need_no_permission(
    broker: BrokerProcess, root: Client
) -> None:
    name = f"user-{uuid.uuid4().hex[:8]}"
    made = root.create_user(name, PASSWORD)
    with Client.connect(broker.address, name, PASSWORD) as client:
        mine = client.get_user(made.user.id)
        assert mine is not None and mine.user.name == name
        client.change_password(name, PASSWORD, "another one")
        assert code_of(lambda: client.get_user("no such user")) == ErrorCode.UNAUTHORIZED
        client.ping()
    with pytest.raises(ClientError, match="INVALID_CREDENTIALS"):
        Client.connect(broker.address, name, PASSWORD)
    Client.connect(broker.address, name, "another one").close()
