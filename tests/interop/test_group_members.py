"""Members of groups, through our client and a broker with two shards: joins, fences, ends."""

from __future__ import annotations

from contextlib import ExitStack

from broker_process import BrokerProcess
from group_cases import (
    GROUP,
    NOT_OWNED,
    TOPIC,
    clients,
    fill,
    joined,
    make_topic,
    members,
    offsets,
    owned,
    read,
    refusal,
    wait_for,
)
from iggy_client import Client
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, PollingStrategy

PARTITIONS = 4  # both shards own some


def test_a_member_alone_owns_all_and_a_second_one_gets_its_share(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS)
    first, second = clients(broker, open_clients, 2)
    assert first.sync_group(stream, TOPIC, "g") is None
    first.join_group(stream, TOPIC, "g")
    alone = first.sync_group(stream, TOPIC, 0)
    assert alone is not None
    assert (alone.generation, alone.partitions) == (1, (0, 1, 2, 3))
    first.join_group(stream, TOPIC, "g")
    assert first.sync_group(stream, TOPIC, "g") == alone, "joining twice changes nothing"

    second.join_group(stream, TOPIC, "g")

    for client, share in ((first, (0, 1)), (second, (3, 2))):
        assignment = client.sync_group(stream, TOPIC, "g")
        assert assignment is not None
        assert (assignment.generation, assignment.partitions) == (2, share)
    assert members(admin, stream) == {0: (0, 1), 1: (3, 2)}
    (listed,) = admin.get_groups(stream, TOPIC)
    assert (listed.members_count, listed.partitions_count) == (2, PARTITIONS)
    assert [group.group_id for group in first.get_me().groups] == [0]
    assert admin.get_me().groups == ()
    for client in (first, second):
        seen = admin.get_client(client.get_me().client.client_id)
        assert seen is not None
        assert seen.groups == client.get_me().groups
    counts = {one.client_id: one.groups_count for one in admin.get_clients()}
    assert counts[first.get_me().client.client_id] == 1
    assert counts[admin.get_me().client.client_id] == 0


def test_missing_things_are_named_in_order(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=1, groups=())
    assert admin.create_group(stream, TOPIC, "g").group.id == 0
    (member,) = joined(broker, open_clients, stream, 1)
    for missing in ("nothing", 4000):
        for work in (member.join_group, member.leave_group, member.delete_group):
            assert refusal(work, missing, TOPIC, "g") == ErrorCode.STREAM_ID_NOT_FOUND
            assert refusal(work, stream, missing, "g") == ErrorCode.TOPIC_ID_NOT_FOUND
            assert refusal(work, stream, TOPIC, missing) == ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND
        assert member.sync_group(missing, TOPIC, "g") is None
        assert member.sync_group(stream, missing, "g") is None
        assert member.sync_group(stream, TOPIC, missing) is None
        assert member.get_group(stream, TOPIC, missing) is None
        assert refusal(member.get_group, stream, missing, "g") == ErrorCode.TOPIC_ID_NOT_FOUND
        assert refusal(member.get_groups, missing, TOPIC) == ErrorCode.STREAM_ID_NOT_FOUND
    for group in ("g", 0):
        code = refusal(admin.leave_group, stream, TOPIC, group)
        assert code == ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND
    assert len(admin.get_groups(stream, TOPIC)) == 1
    assert members(admin, stream) == {0: (0,)}


def test_only_owners_poll_and_commit(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=5)
    stranger = admin
    pair = joined(broker, open_clients, stream, 2)
    for client in pair:
        mine = owned(client, stream)
        assert mine is not None
        for partition in range(PARTITIONS):
            polled = read(client, stream, partition)
            if partition in mine:
                assert (polled.partition_id, offsets(polled)) == (partition, [0, 1, 2, 3, 4])
                client.store_offset(GROUP, stream, TOPIC, partition, 1)
                assert offsets(read(client, stream, partition)) == [2, 3, 4]
            else:
                assert (polled.partition_id, polled.current_offset, polled.count) == (
                    NOT_OWNED, 0, 0,
                )  # fmt: skip
                for work, *more in ((client.store_offset, 1), (client.delete_offset,)):
                    code = refusal(work, GROUP, stream, TOPIC, partition, *more)
                    assert code == ErrorCode.RESOURCE_NOT_FOUND
    for partition in range(PARTITIONS):
        assert read(stranger, stream, partition).partition_id == NOT_OWNED
        stored = stranger.get_offset(GROUP, stream, TOPIC, partition)
        assert stored is not None, "anybody may look"
        assert stored.stored_offset == 1


def test_polls_that_name_nothing_say_so_without_an_error(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=1, per_partition=1)
    (member,) = joined(broker, open_clients, stream, 1)
    for where in ((9999, TOPIC, 0), (stream, "nothing", 0), (stream, TOPIC, 7)):
        assert member.poll(*where, consumer=GROUP, count=1).partition_id == NOT_OWNED
    other = member.poll(stream, TOPIC, 0, consumer=Consumer.group("nothing"), count=1)
    assert other.partition_id == NOT_OWNED
    unnamed = member.poll(stream, TOPIC, None, consumer=GROUP, count=1)
    assert (unnamed.partition_id, unnamed.current_offset, unnamed.count) == (0, 0, 0)


def test_offsets_of_the_group_go_on_after_a_rebalance(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=10)
    first, second = joined(broker, open_clients, stream, 2)
    for client in (first, second):
        for partition in owned(client, stream) or ():
            assert offsets(read(client, stream, partition, count=4, auto_commit=True)) == [
                0, 1, 2, 3,
            ]  # fmt: skip
    second.leave_group(stream, TOPIC, "g")
    assert owned(second, stream) is None
    assert owned(first, stream) == (0, 1, 2, 3)
    for partition in range(PARTITIONS):
        assert offsets(read(first, stream, partition, auto_commit=True)) == [4, 5, 6, 7, 8, 9]
        assert read(second, stream, partition).partition_id == NOT_OWNED
    first.leave_group(stream, TOPIC, "g")
    assert members(admin, stream) == {}, "the group stays"
    third = joined(broker, open_clients, stream, 1)[0]
    fill(admin, stream, 2, 1)
    assert offsets(read(third, stream, 2)) == [10]


def test_groups_see_everything_for_themselves(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=1, groups=("g", "h"), per_partition=3)
    (client,) = clients(broker, open_clients, 1)
    for group in ("g", "h"):
        client.join_group(stream, TOPIC, group)
        polled = client.poll(
            stream, TOPIC, 0, consumer=Consumer.group(group), count=9, auto_commit=True
        )
        assert offsets(polled) == [0, 1, 2]
    assert len(client.get_me().groups) == 2
    plain = client.poll(stream, TOPIC, 0, consumer=Consumer.plain(0), count=9)
    assert offsets(plain) == [0, 1, 2], "the consumer with the group's number is another one"


def test_who_has_polled_and_not_committed_keeps_the_partition_for_now(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=10)
    (first,) = joined(broker, open_clients, stream, 1)
    for partition in range(PARTITIONS):
        assert read(first, stream, partition, count=6).count == 6
    (second,) = joined(broker, open_clients, stream, 1)

    assert members(admin, stream) == {0: (0, 1, 2, 3), 1: ()}
    assert owned(first, stream) == (0, 1)
    assert owned(second, stream) == ()
    for client in (first, second):
        assert read(client, stream, 3).partition_id == NOT_OWNED
    assert refusal(second.store_offset, GROUP, stream, TOPIC, 3, 1) == ErrorCode.RESOURCE_NOT_FOUND
    first.store_offset(GROUP, stream, TOPIC, 3, 4)
    assert owned(second, stream) == (), "a lower commit does not do it"
    first.store_offset(GROUP, stream, TOPIC, 3, 5)
    wait_for(lambda: owned(second, stream) == (3,))
    assert refusal(first.store_offset, GROUP, stream, TOPIC, 3, 9) == ErrorCode.RESOURCE_NOT_FOUND
    assert offsets(read(second, stream, 3)) == [6, 7, 8, 9]
    first.store_offset(GROUP, stream, TOPIC, 2, 5)
    wait_for(lambda: owned(second, stream) == (3, 2))
    assignment = second.sync_group(stream, TOPIC, "g")
    assert assignment is not None
    assert assignment.generation == 4, "one join more, two hand-overs"


def test_a_purge_lets_partitions_go_that_wait(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=3)
    (first,) = joined(broker, open_clients, stream, 1)
    for partition in range(PARTITIONS):
        read(first, stream, partition)
        if partition < 2:
            first.store_offset(GROUP, stream, TOPIC, partition, 2)
    (second,) = joined(broker, open_clients, stream, 1)
    assert owned(second, stream) == ()

    admin.purge_topic(stream, TOPIC)

    wait_for(lambda: set(owned(second, stream) or ()) == {2, 3})
    assert len(members(admin, stream)) == 2, "members stay"
    for partition in range(PARTITIONS):
        assert admin.get_offset(GROUP, stream, TOPIC, partition) is None
    fill(admin, stream, 3, 1)
    assert offsets(read(second, stream, 3)) == [0]


def test_more_members_than_partitions(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=2)
    three = joined(broker, open_clients, stream, 3)
    assert [owned(client, stream) for client in three] == [(0,), (1,), ()]
    assert read(three[2], stream, 0).partition_id == NOT_OWNED
    three[0].leave_group(stream, TOPIC, "g")
    assert members(admin, stream) == {1: (0,), 2: (1,)}
    fill(admin, stream, 1, 2)
    assert offsets(read(three[2], stream, 1)) == [0, 1]


def test_offsets_that_do_not_exist_are_refused(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=2)
    (member,) = joined(broker, open_clients, stream, 1)
    for partition in range(2):
        for offset in (0, 1):
            code = refusal(member.store_offset, GROUP, stream, TOPIC, partition, offset)
            assert code == ErrorCode.INVALID_OFFSET
        fill(admin, stream, partition, 5)
        for offset in (2, 4):
            member.store_offset(GROUP, stream, TOPIC, partition, offset)
        for offset in (5, 1 << 63, (1 << 64) - 1):
            code = refusal(member.store_offset, GROUP, stream, TOPIC, partition, offset)
            assert code == ErrorCode.INVALID_OFFSET
        stored = member.get_offset(GROUP, stream, TOPIC, partition)
        assert stored is not None
        assert stored.stored_offset == 4
        member.delete_offset(GROUP, stream, TOPIC, partition)
        code = refusal(member.delete_offset, GROUP, stream, TOPIC, partition)
        assert code == ErrorCode.CONSUMER_OFFSET_NOT_FOUND
        again = read(member, stream, partition, strategy=PollingStrategy.next())
        assert offsets(again) == [0, 1, 2, 3, 4]
