"""Client ids that move between connections and shards, and what their retries are answered."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator

import pytest

from access_cases import code_of, on_shard
from broker_process import PASSWORD, USERNAME, BrokerProcess
from group_cases import TOPIC, make_topic, members, wait_for
from iggy_client import Client
from iggy_wire.codes import Command, Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.primitives import Identifier
from iggy_wire.replies import ClientDetails, LoginReply
from iggy_wire.requests import (
    CreateStream,
    CreateUser,
    GetMe,
    GetStreams,
    JoinConsumerGroup,
    Login,
    LoginWithToken,
)
from iggy_wire.results import split_result
from raw_frames import ANSWER_S, Header, RawClient

SECRET = "of-some-user"
SHARDS = 2


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def token(root: Client) -> str:
    """Tokens log in at once: no password is hashed."""
    return root.create_access_token(uuid.uuid4().hex[:12])


def new_name() -> str:
    return f"session-{uuid.uuid4().hex[:8]}"


def raw_on(broker: BrokerProcess, shard: int, *, client: bytes | None = None) -> RawClient:
    """A connection that a certain shard accepted, not logged in, with this client id."""
    others = []
    try:
        for _ in range(200):
            raw = RawClient(broker.tcp_port)
            raw.login()
            _, body = raw.ask(GetMe())
            if (ClientDetails.decode(body).client.client_id - 1) % SHARDS == shard:
                raw.exchange(Operation.LOGOUT)
                raw.session = raw.request = 0
                raw.client = client or secrets.token_bytes(16)
                return raw
            others.append(raw)
    finally:
        for other in others:
            other.socket.close()
    raise AssertionError(f"no connection reached shard {shard}")


def log_in(raw: RawClient, token: str) -> Header:
    body = LoginWithToken(P11.version, "tests", "1", token).encode()
    header, payload = raw.exchange(Operation.REGISTER, body)
    if isinstance(header, ReplyHeader):
        raw.session = int.from_bytes(split_result(payload)[1][4:12], "little")
    return header


def eviction_of(header: Header) -> EvictionReason | None:
    return EvictionReason(header.reason) if isinstance(header, EvictionHeader) else None


@pytest.mark.parametrize("there", [0, 1], ids=["to shard 0", "to shard 1"])
@pytest.mark.parametrize("here", [0, 1], ids=["from shard 0", "from shard 1"])
def test_a_client_id_moves_with_its_memory(
    broker: BrokerProcess, token: str, here: int, there: int
) -> None:
    with raw_on(broker, here) as old, raw_on(broker, there, client=old.client) as new:
        log_in(old, token)
        changes = [CreateStream(new_name()) for _ in range(6)]
        frames, replies = [old.frame(change) for change in changes], []
        for frame in frames:
            old.send(frame)
            replies.append(old.receive())

        assert eviction_of(log_in(new, token)) is None
        assert new.session > old.session
        new.request = 1
        for change, reply in zip(changes[1:], replies[1:], strict=True):
            assert new.ask(change) == reply
        new.send(frames[-1])  # as it was first sent, with the number of the old session
        assert new.receive() == replies[-1]
        new.request = 0
        header, body = new.ask(changes[0])
        assert split_result(body)[0] == ErrorCode.REQUEST_ALREADY_APPLIED
        assert isinstance(header, ReplyHeader) and header.op == header.commit > 0

        header, _ = old.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == ErrorCode.UNAUTHENTICATED
        header, _ = old.ask(CreateStream(new_name()))
        assert eviction_of(header) is EvictionReason.NO_SESSION
        new.request = 6
        header, body = new.ask(CreateStream(new_name()))
        assert split_result(body)[0] == 0


def test_a_closed_connection_leaves_no_memory(broker: BrokerProcess, token: str) -> None:
    with RawClient(broker.tcp_port) as old:
        log_in(old, token)
        frame = old.frame(CreateStream(new_name()))
        old.send(frame)
        old.receive()
        client = old.client
    with RawClient(broker.tcp_port, client=client) as new:
        log_in(new, token)
        header, body = new.ask(CreateStream(new_name()))  # number 1 again
        assert isinstance(header, ReplyHeader) and split_result(body)[0] == 0


@pytest.mark.parametrize("there", [0, 1])
def test_a_client_id_of_another_user_stays_where_it_is(
    broker: BrokerProcess, root: Client, token: str, there: int
) -> None:
    name = new_name()
    root.create_user(name, SECRET)
    with raw_on(broker, 0) as holder, raw_on(broker, there, client=holder.client) as other:
        log_in(holder, token)
        body = Login(P11.version, "tests", "1", name, SECRET).encode()
        header, _ = other.exchange(Operation.REGISTER, body)
        assert eviction_of(header) is EvictionReason.SESSION_ERROR
        header, reply = holder.exchange(Operation.REGISTER, body, session=0)  # its own connection
        assert isinstance(header, ReplyHeader) and header.status == 0
        login = LoginReply.decode(split_result(reply)[1])
        assert (login.user_id, login.session) == (0, holder.session), "it is root's as before"
        header, _ = holder.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == 0


@pytest.mark.parametrize("there", [0, 1], ids=["same shard", "other shard"])
def test_who_takes_over_waits_for_the_change_that_is_served(
    broker: BrokerProcess, token: str, there: int
) -> None:
    """Passwords are hashed two at a time, so a queue of them holds a request for long."""
    wrong = Login(P11.version, "tests", "1", USERNAME, "not the password").encode()
    crowd = [raw_on(broker, 0) for _ in range(30)]
    try:
        with raw_on(broker, 0) as old, raw_on(broker, there, client=old.client) as new:
            log_in(old, token)
            for one in crowd:
                one.send(one.header(Operation.REGISTER, wrong).encode() + wrong)
            change = CreateUser(new_name(), SECRET)
            old.send(old.frame(change))
            old.send(old.header(Operation.NON_REPLICATED, b"", code=Command.PING).encode())
            assert eviction_of(log_in(new, token)) is None
            made = new.ask(change)
            assert split_result(made[1])[0] == 0, "the stored answer, at once"
            assert old.receive() == made
            header, _ = old.receive()
            assert isinstance(header, ReplyHeader) and header.status == 0, "a ping needs no login"
    finally:
        for one in crowd:
            one.socket.close()


def test_of_logins_that_cross_exactly_one_wins(broker: BrokerProcess, token: str) -> None:
    for _ in range(10):
        client = secrets.token_bytes(16)
        crowd = [RawClient(broker.tcp_port, client=client) for _ in range(12)]
        try:
            body = LoginWithToken(P11.version, "tests", "1", token).encode()
            for one in crowd:
                one.send(one.header(Operation.REGISTER, body).encode() + body)
            for one in crowd:
                header, _ = one.receive()
                assert eviction_of(header) is None
            served = []
            for one in crowd:
                header, _ = one.ask(GetStreams())
                assert isinstance(header, ReplyHeader)
                served.append(header.status)
            assert sorted(served) == [0] + [ErrorCode.UNAUTHENTICATED] * (len(crowd) - 1)
        finally:
            for one in crowd:
                one.socket.close()


def test_crossing_logins_leave_no_member_behind(broker: BrokerProcess, root: Client) -> None:
    """A membership goes along, which takes a while: the next login comes meanwhile."""
    stream = make_topic(root, partitions=4)
    secret = root.create_access_token(uuid.uuid4().hex[:12])
    join = JoinConsumerGroup(Identifier(stream), Identifier(TOPIC), Identifier("g"))
    for _ in range(10):
        with RawClient(broker.tcp_port) as member:
            log_in(member, secret)
            member.ask(join)
            crowd = [RawClient(broker.tcp_port, client=member.client) for _ in range(12)]
            body = LoginWithToken(P11.version, "tests", "1", secret).encode()
            for one in crowd:
                one.send(one.header(Operation.REGISTER, body).encode() + body)
            for one in crowd:
                assert eviction_of(one.receive()[0]) is None
            served = [one for one in crowd if refused(one) == 0]
            assert len(served) == 1
            assert refused(member) == ErrorCode.UNAUTHENTICATED
            assert members(root, stream) == {0: (0, 1, 2, 3)}, "that one went on as the member"
            for one in crowd:
                one.socket.close()
        wait_for(lambda: members(root, stream) == {})


def refused(raw: RawClient) -> int:
    header, _ = raw.ask(GetStreams())
    assert isinstance(header, ReplyHeader)
    return header.status


def test_another_client_id_on_the_same_connection_is_another_session(
    broker: BrokerProcess, root: Client, token: str
) -> None:
    name = new_name()
    made = root.create_user(name, SECRET)
    with RawClient(broker.tcp_port) as raw:
        log_in(raw, token)
        first = raw.session
        raw.client, raw.session = secrets.token_bytes(16), 0
        raw.login(name, SECRET)
        assert raw.session > first
        _, body = raw.ask(GetMe())
        assert ClientDetails.decode(body).client.user_id == made.user.id
        header, _ = raw.ask(GetStreams())
        assert isinstance(header, ReplyHeader) and header.status == ErrorCode.UNAUTHORIZED


# -- who is there ----------------------------------------------------------------------------------


def test_clients_of_all_shards_are_listed(broker: BrokerProcess, root: Client) -> None:
    with on_shard(broker, 0) as first, on_shard(broker, 1) as second:
        mine = [client.get_me().client for client in (first, second)]
        for client in (first, second, root):
            listed = client.get_clients()
            numbers = [one.client_id for one in listed]
            assert numbers == sorted(set(numbers)) and min(numbers) > 0
            assert set(mine) <= set(listed)
            for one in mine:
                found = client.get_client(one.client_id)
                assert found is not None and found.client == one
                assert (one.user_id, one.transport, one.groups_count) == (0, 1, 0)
                assert one.address.startswith("127.0.0.1:")
        with RawClient(broker.tcp_port) as raw:  # nobody
            raw.exchange(Operation.NON_REPLICATED, code=Command.PING)
            assert {one.client_id for one in root.get_clients()} >= set(numbers)
        second.logout()
        assert root.get_client(mine[1].client_id) is None
        assert root.get_client(mine[0].client_id) is not None
    assert root.get_client(1 << 31) is None
    assert code_of(lambda: root.get_client(0)) is None
    address = f"127.0.0.1:{broker.tcp_port}"
    assert all(one.address != address for one in root.get_clients())


def test_a_lost_connection_is_nobody_any_more(broker: BrokerProcess, root: Client) -> None:
    gone = []
    for shard in range(SHARDS):
        client = on_shard(broker, shard, USERNAME, PASSWORD)
        gone.append(client.get_me().client.client_id)
        client.close()
    deadline = time.monotonic() + ANSWER_S
    while set(gone) & {one.client_id for one in root.get_clients()}:
        assert time.monotonic() < deadline, "closed connections are still listed"
    assert all(root.get_client(number) is None for number in gone)
