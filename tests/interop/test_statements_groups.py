"""Groups, case by case, on a broker with two shards: names, slots, shares, hand-overs, ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from access_cases import code_of, on_shard
from broker_process import BrokerProcess
from group_cases import (
    GROUP,
    NOT_OWNED,
    TOPIC,
    fill,
    make_topic,
    members,
    offsets,
    owned,
    read,
    wait_for,
)
from iggy_client import Client
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import Permissions, StreamPermissions, TopicPermissions
from iggy_wire.primitives import Consumer
from iggy_wire.replies import Membership

PARTITIONS = 4  # both shards own some
SECRET = "of-some-user"


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def make(broker: BrokerProcess) -> Iterator[Callable[[], Client]]:
    """Clients that are closed at the end; each second one is on shard 1."""
    with ExitStack() as stack:
        made: list[Client] = []

        def make_one() -> Client:
            made.append(stack.enter_context(on_shard(broker, len(made) % 2)))
            return made[-1]

        yield make_one


def join(client: Client, stream: str) -> Client:
    client.join_group(stream, TOPIC, "g")
    return client


def generation(client: Client, stream: str) -> int:
    found = client.sync_group(stream, TOPIC, "g")
    assert found is not None
    return found.generation


def test_a_name_is_free_or_taken_in_its_topic(root: Client, make: Callable[[], Client]) -> None:
    stream = make_topic(root, partitions=2, per_partition=3)
    member = join(make(), stream)
    member.store_offset(GROUP, stream, TOPIC, 1, 2)

    taken = code_of(lambda: root.create_group(stream, TOPIC, "g"))

    assert taken == ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS
    assert members(root, stream) == {0: (0, 1)}
    found = root.get_offset(GROUP, stream, TOPIC, 1)
    assert found is not None and found.stored_offset == 2
    root.create_topic(stream, "u", 1)
    assert root.create_group(stream, "u", "g").group.id == 0
    assert root.create_group(stream, TOPIC, "G").group.id == 1, "letters count as they are"


def test_numbers_rise_and_are_not_given_again(root: Client) -> None:
    stream = make_topic(root, partitions=3, groups=())
    for number in range(3):
        made = root.create_group(stream, TOPIC, f"g{number}")
        assert (made.group.id, made.group.name) == (number, f"g{number}")
        assert (made.group.members_count, made.group.partitions_count) == (0, 3)
        assert made.members == ()
    root.delete_group(stream, TOPIC, 1)
    root.delete_group(stream, TOPIC, "g2")
    assert root.create_group(stream, TOPIC, "g1").group.id == 3
    assert [one.id for one in root.get_groups(stream, TOPIC)] == [0, 3]


def test_missing_places_are_named_also_by_those_who_create_and_list(root: Client) -> None:
    stream = make_topic(root, partitions=1)
    for missing in ("nowhere", 4000):
        doings: list[Callable[[str | int, str | int], object]] = [
            lambda at, topic: root.create_group(at, topic, "new"),
            root.get_groups,
            lambda at, topic: root.get_group(at, topic, "g"),
            lambda at, topic: root.get_group(at, topic, 0),
        ]
        for doing in doings:
            in_stream = code_of(partial(doing, missing, TOPIC))
            assert in_stream == ErrorCode.STREAM_ID_NOT_FOUND
            in_topic = code_of(partial(doing, stream, missing))
            assert in_topic == ErrorCode.TOPIC_ID_NOT_FOUND
    assert root.get_group(stream, TOPIC, 1) is None
    assert [one.name for one in root.get_groups(stream, TOPIC)] == ["g"]


def test_a_joiner_takes_the_lowest_slot_that_is_free(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=PARTITIONS)
    first, second, third = (join(make(), stream) for _ in range(3))
    first.leave_group(stream, TOPIC, "g")
    assert members(root, stream) == {1: (0, 2), 2: (1, 3)}, "slots stay, partitions are dealt anew"
    join(first, stream)
    assert members(root, stream) == {0: (2, 3), 1: (0,), 2: (1,)}, "the end of each list"
    again = members(root, stream)
    for client in (first, second, third):
        join(client, stream)
    assert members(root, stream) == again, "joining again changes nothing"


def test_a_client_in_many_groups_lists_them_all(root: Client, make: Callable[[], Client]) -> None:
    client = make()
    places = []
    for _ in range(2):
        stream = make_topic(root, partitions=1, groups=("g", "h"))
        found = root.get_stream(stream)
        assert found is not None
        for group_id, name in enumerate(("g", "h")):
            client.join_group(stream, TOPIC, name)
            places.append(Membership(found.stream.id, 0, group_id))
    me = client.get_me()
    assert (me.client.groups_count, me.groups) == (4, tuple(places))
    client.leave_group(stream, TOPIC, "g")
    assert client.get_me().groups == (*places[:2], places[3])
    root.delete_topic(stream, TOPIC)
    assert client.get_me().groups == tuple(places[:2])


def test_every_change_of_members_and_shares_is_a_generation(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=PARTITIONS)
    first, second = join(make(), stream), make()
    assert generation(first, stream) == 1
    join(second, stream)
    assert generation(first, stream) == generation(second, stream) == 2
    second.leave_group(stream, TOPIC, "g")
    assert generation(first, stream) == 3
    root.create_partitions(stream, TOPIC, 1)
    assert generation(first, stream) == 4
    root.delete_partitions(stream, TOPIC, 1)
    assert generation(first, stream) == 5
    first.leave_group(stream, TOPIC, "g")
    assert generation(join(first, stream), stream) == 7


@pytest.mark.parametrize("shares", [(2, 3), (3, 2), (4, 4), (10, 4)], ids=str)
def test_shares_differ_by_one_at_most(
    root: Client, make: Callable[[], Client], shares: tuple[int, int]
) -> None:
    partitions, count = shares
    stream = make_topic(root, partitions=partitions)
    joined = [join(make(), stream) for _ in range(count)]
    share, more = divmod(partitions, count)
    for step, client in enumerate(joined):
        assert len(owned(client, stream) or ()) == share + (step < more)
    listed = members(root, stream)
    assert sorted(sum(listed.values(), ())) == list(range(partitions))
    (group,) = root.get_groups(stream, TOPIC)
    assert (group.members_count, group.partitions_count) == (count, partitions)


def test_what_is_committed_with_the_poll_moves_at_once(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=PARTITIONS, per_partition=5)
    first, second = join(make(), stream), make()
    for partition in range(PARTITIONS):
        assert read(first, stream, partition, count=3, auto_commit=True).count == 3
    join(second, stream)
    assert members(root, stream) == {0: (0, 1), 1: (3, 2)}
    for partition in (2, 3):
        assert offsets(read(second, stream, partition)) == [3, 4]


@pytest.mark.parametrize("end", ["leave", "close", "logout", "delete offset"])
def test_a_hand_over_ends_with_its_owner(
    root: Client, make: Callable[[], Client], end: str
) -> None:
    stream = make_topic(root, partitions=2, per_partition=5)
    first, second = join(make(), stream), make()
    for partition in range(2):
        read(first, stream, partition)
    join(second, stream)
    assert (owned(first, stream), owned(second, stream)) == ((0,), ())
    if end == "leave":
        first.leave_group(stream, TOPIC, "g")
    elif end == "logout":
        first.logout()
    elif end == "close":
        first.close()
    else:
        first.store_offset(GROUP, stream, TOPIC, 1, 2)
        first.delete_offset(GROUP, stream, TOPIC, 1)
        assert members(root, stream) == {0: (0, 1), 1: ()}, "nothing was committed"
        first.leave_group(stream, TOPIC, "g")
    wait_for(lambda: owned(second, stream) == (0, 1))
    for partition in range(2):
        assert offsets(read(second, stream, partition)) == [0, 1, 2, 3, 4], "again"


def test_a_third_member_joins_while_partitions_wait(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=6, per_partition=2)
    first, second, third = join(make(), stream), make(), make()
    for partition in range(6):
        read(first, stream, partition)
    join(second, stream)
    join(third, stream)
    assert owned(first, stream) == (0, 1)
    for client in (second, third):
        assert owned(client, stream) == ()
        assert read(client, stream, 5).partition_id == NOT_OWNED
    for partition in range(2, 6):
        first.store_offset(GROUP, stream, TOPIC, partition, 1)
    wait_for(lambda: len(owned(second, stream) or ()) == len(owned(third, stream) or ()) == 2)
    assert sorted(sum(members(root, stream).values(), ())) == list(range(6))


def test_who_comes_back_gets_a_fair_share_and_leaves_no_ghost(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=PARTITIONS)
    first, second = (join(make(), stream) for _ in range(2))
    for _ in range(3):
        first.reconnect()
        wait_for(lambda: owned(second, stream) == (0, 1, 2, 3))
        assert owned(first, stream) is None
        join(first, stream)
        shares = [len(owned(client, stream) or ()) for client in (first, second)]
        assert shares == [2, 2]
        assert len(members(root, stream)) == 2
    fill(root, stream, 0, 1)
    found = [read(client, stream, 0).count for client in (first, second)]
    assert sorted(found) == [0, 1]


def test_join_and_leave_need_the_rights_of_get_topic(broker: BrokerProcess, root: Client) -> None:
    stream = make_topic(root, partitions=1)
    found = root.get_stream(stream)
    assert found is not None
    name = f"reader of {stream}"
    root.create_user(name, SECRET)
    topic = TopicPermissions(0, read_topic=True)
    allowed = Permissions(streams=(StreamPermissions(found.stream.id, topics=(topic,)),))
    with Client.connect(broker.address, name, SECRET) as client:
        doings = [
            lambda: client.create_group(stream, TOPIC, "h"),
            lambda: client.get_group(stream, TOPIC, "h"),
            lambda: client.get_groups(stream, TOPIC),
            lambda: client.join_group(stream, TOPIC, "h"),
            lambda: client.leave_group(stream, TOPIC, "h"),
            lambda: client.delete_group(stream, TOPIC, "h"),
        ]
        assert {code_of(doing) for doing in doings} == {ErrorCode.UNAUTHORIZED}
        assert client.sync_group(stream, TOPIC, "g") is None, "a login is enough"
        root.update_permissions(name, allowed)
        assert {code_of(doing) for doing in doings} == {None}
        client.join_group(stream, TOPIC, "g")
        root.update_permissions(name, None)
        refused = code_of(partial(client.leave_group, stream, TOPIC, "g"))
        assert refused == ErrorCode.UNAUTHORIZED
        polled = code_of(partial(read, client, stream, 0))
        assert polled == ErrorCode.UNAUTHORIZED, "a member, too"
    wait_for(lambda: members(root, stream) == {})
    root.delete_user(name)


def test_the_last_leave_keeps_the_group_and_its_offsets(
    root: Client, make: Callable[[], Client]
) -> None:
    stream = make_topic(root, partitions=2, per_partition=4)
    member = join(make(), stream)
    for partition in range(2):
        read(member, stream, partition, count=2, auto_commit=True)
    member.leave_group(stream, TOPIC, "g")
    assert members(root, stream) == {}
    for partition in range(2):
        found = root.get_offset(Consumer.group(0), stream, TOPIC, partition)
        assert found is not None and found.stored_offset == 1
    join(make(), stream)
    assert members(root, stream) == {0: (0, 1)}
