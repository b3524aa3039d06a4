"""Members and groups that end, through our client and a broker with two shards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from group_cases import (
    GROUP,
    NOT_OWNED,
    TOPIC,
    fill,
    joined,
    make_topic,
    members,
    offset_files,
    offsets,
    owned,
    read,
    refusal,
    wait_for,
)
from iggy_client import Client, KeptAlive, LinkError
from iggy_wire.errors import ErrorCode

PARTITIONS = 4  # both shards own some


@pytest.mark.parametrize("end", ["close", "logout", "kill"])
def test_an_ended_session_is_no_member_any_more(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack, end: str
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS)
    first, second = joined(broker, open_clients, stream, 2)
    if end == "close":
        second.close()
    elif end == "logout":
        second.logout()
        assert members(admin, stream) == {0: (0, 1, 2, 3)}, "at once"
    else:
        second.leave_group(stream, TOPIC, "g")
        _kill_a_member(broker, stream, lambda: len(members(admin, stream)) == 2)
    wait_for(lambda: owned(first, stream) == (0, 1, 2, 3))
    assert members(admin, stream) == {0: (0, 1, 2, 3)}


def test_who_logs_in_again_elsewhere_is_a_member_there(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=5)
    first, second = joined(broker, open_clients, stream, 2)
    for _ in range(6):  # from shard to shard, as the kernel deals connections out
        again = open_clients.enter_context(Client(broker.address))
        again._session.client = second._session.client
        again.login(USERNAME, PASSWORD)
        assert owned(again, stream) == (3, 2)
        code = refusal(second.sync_group, stream, TOPIC, "g")
        assert code == ErrorCode.UNAUTHENTICATED
        second = again
    assert members(admin, stream) == {0: (0, 1), 1: (3, 2)}
    assert [one.group_id for one in second.get_me().groups] == [0]
    for partition in (2, 3):
        assert offsets(read(second, stream, partition, auto_commit=True)) == [0, 1, 2, 3, 4]
    second.close()
    wait_for(lambda: owned(first, stream) == (0, 1, 2, 3))


def _kill_a_member(broker: BrokerProcess, stream: str, is_in: object) -> None:
    assert callable(is_in)
    code = (
        "import sys, time; from iggy_client import Client\n"
        "client = Client.connect(*sys.argv[1:4])\n"
        "client.join_group(sys.argv[4], 't', 'g'); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, broker.address, USERNAME, PASSWORD, stream]
    with subprocess.Popen(command) as process:
        try:
            wait_for(is_in, within_s=30)
        finally:
            os.kill(process.pid, signal.SIGKILL)


def test_a_new_number_of_partitions_is_dealt_anew(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=1)
    first, second = joined(broker, open_clients, stream, 2)
    admin.create_partitions(stream, TOPIC, 2)
    assert members(admin, stream) == {0: (0, 2, 4), 1: (1, 3, 5)}
    assert owned(first, stream) == (0, 2, 4)
    fill(admin, stream, 5, 1)
    assert offsets(read(second, stream, 5)) == [0]
    admin.delete_partitions(stream, TOPIC, 5)
    assert members(admin, stream) == {0: (0,), 1: ()}
    assert owned(second, stream) == ()


def test_deleting_a_group_ends_memberships_and_forgets_offsets(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack
) -> None:
    stream = make_topic(admin, partitions=PARTITIONS, per_partition=10)
    (member,) = joined(broker, open_clients, stream, 1)
    for partition in range(PARTITIONS):
        assert read(member, stream, partition, auto_commit=True).count == 10
    before = len(offset_files(broker.data))
    admin.delete_group(stream, TOPIC, "g")
    assert len(offset_files(broker.data)) == before - PARTITIONS
    assert member.get_me().groups == ()
    assert owned(member, stream) is None
    assert read(member, stream, 0).partition_id == NOT_OWNED
    assert admin.create_group(stream, TOPIC, "g").group.id == 1
    assert read(member, stream, 0).partition_id == NOT_OWNED
    member.join_group(stream, TOPIC, "g")
    for partition in range(PARTITIONS):
        assert member.get_offset(GROUP, stream, TOPIC, partition) is None
        assert offsets(read(member, stream, partition, count=2)) == [0, 1]


@pytest.mark.parametrize("whole_stream", [False, True])
def test_deleting_the_topic_ends_memberships(
    broker: BrokerProcess, admin: Client, open_clients: ExitStack, whole_stream: bool
) -> None:
    stream = make_topic(admin, partitions=2, per_partition=1)
    (member,) = joined(broker, open_clients, stream, 1)
    if whole_stream:
        admin.delete_stream(stream)
    else:
        admin.delete_topic(stream, TOPIC)
    assert member.get_me().groups == ()
    assert owned(member, stream) is None
    assert read(member, stream, 0).partition_id == NOT_OWNED
    member.close()  # leaves nothing that is there


def test_a_kept_alive_client_pings_and_says_when_it_is_cut_off(
    broker: BrokerProcess, admin: Client
) -> None:
    stream = make_topic(admin, partitions=1)
    with KeptAlive(broker.client(), interval_s=0.01) as kept:
        with kept.use() as client:
            client.join_group(stream, TOPIC, "g")
            sent = client._session._next_request
        with kept.use() as client:
            assert client._session._next_request == sent, "pings spend no request number"
            client._link._socket.shutdown(2)
        wait_for(lambda: not kept._client.is_open)
        with kept.use() as client:
            with pytest.raises(LinkError):
                client.ping()
            client.reconnect()
            client.join_group(stream, TOPIC, "g")
            assert owned(client, stream) == (0,)
    wait_for(lambda: members(admin, stream) == {})
