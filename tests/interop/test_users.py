"""Users, passwords and tokens on a real broker with two shards, through both clients."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import IggyClient, UserStatus

from access_cases import code_of, on_shard
from broker_process import PASSWORD, START_S, USERNAME, BrokerProcess, running_broker
from iggy_client import AsyncClient, Client, ClientError, SessionLostError
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from iggy_wire.primitives import Identifier
from iggy_wire.requests import CreatePersonalAccessToken, CreateUser, LoginWithToken, UpdateUser
from iggy_wire.results import split_result
from raw_frames import RawClient

SECRET = "of-some-user"
SOME = Permissions(
    GlobalPermissions(read_servers=True, send_messages=True),
    (
        StreamPermissions(1, read_stream=True, topics=(TopicPermissions(7, poll_messages=True),)),
        StreamPermissions(4, send_messages=True),
    ),
)


def new_name() -> str:
    return f"user-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def test_users_are_made_read_changed_and_deleted(broker: BrokerProcess, root: Client) -> None:
    name, other = new_name(), new_name()
    made = root.create_user(name, SECRET, permissions=SOME)

    assert (made.user.name, made.user.status, made.permissions) == (name, 1, SOME)
    assert root.get_user(name) == made == root.get_user(made.user.id)
    root.update_user(name, username=other, active=False)
    changed = root.get_user(made.user.id)
    assert changed is not None
    assert (changed.user.name, changed.user.status) == (other, 2)
    assert root.get_user(name) is None
    root.update_permissions(other, None)
    stripped = root.get_user(other)
    assert stripped is not None and stripped.permissions is None
    ids = [user.id for user in root.get_users()]
    assert ids == sorted(ids) and made.user.id in ids and ids[0] == 0
    root.delete_user(made.user.id)
    assert root.get_user(other) is None
    assert code_of(lambda: Client.connect(broker.address, other, SECRET)) == (
        ErrorCode.INVALID_CREDENTIALS
    )


@pytest.mark.parametrize(
    ("username", "password", "code"),
    [
        ("ab", SECRET, ErrorCode.INVALID_USERNAME),
        ("x" * 51, SECRET, ErrorCode.INVALID_USERNAME),
        ("ü" * 26, SECRET, ErrorCode.INVALID_USERNAME),  # bytes count
        ("somebody else", "ab", ErrorCode.INVALID_PASSWORD),
        ("somebody else", "x" * 101, ErrorCode.INVALID_PASSWORD),
        (USERNAME, SECRET, ErrorCode.USER_ALREADY_EXISTS),
    ],
)
def test_names_and_passwords_have_limits(
    root: Client, username: str, password: str, code: ErrorCode
) -> None:
    assert code_of(lambda: root.create_user(username, password)) == code
    if code is ErrorCode.INVALID_USERNAME:
        assert code_of(lambda: root.update_user(0, username=username)) == code


def test_what_root_is_spared(root: Client) -> None:
    assert code_of(lambda: root.delete_user(0)) == ErrorCode.CANNOT_DELETE_USER
    refused = code_of(lambda: root.update_permissions(0, None))
    assert refused == ErrorCode.CANNOT_CHANGE_PERMISSIONS
    assert code_of(lambda: root.update_user(0, active=False)) == ErrorCode.INVALID_USER_STATUS
    for doing in (
        lambda: root.delete_user("nobody here"),
        lambda: root.update_user("nobody here"),
        lambda: root.update_permissions("nobody here", None),
        lambda: root.change_password("nobody here", PASSWORD, SECRET),
    ):
        assert code_of(doing) == ErrorCode.RESOURCE_NOT_FOUND


def test_refused_changes_travel_in_the_result_section(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        requests = (CreateUser("odd status", SECRET, status=3), UpdateUser(Identifier(0), status=0))
        for request in requests:
            header, body = raw.ask(request)
            assert isinstance(header, ReplyHeader) and header.status == 0
            assert split_result(body)[0] == ErrorCode.INVALID_USER_STATUS


def test_an_inactive_user_cannot_log_in(broker: BrokerProcess, root: Client) -> None:
    name = new_name()
    root.create_user(name, SECRET, active=False)

    refused = code_of(lambda: Client.connect(broker.address, name, SECRET))
    assert refused == ErrorCode.INVALID_CREDENTIALS
    root.update_user(name, active=True)
    Client.connect(broker.address, name, SECRET).close()


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("how", ["deleted", "inactive"])
def test_sessions_of_users_who_must_go_end_at_once(
    broker: BrokerProcess, root: Client, how: str, shard: int
) -> None:
    name = new_name()
    root.create_user(name, SECRET, permissions=Permissions(GlobalPermissions(*[True] * 10)))
    with (
        on_shard(broker, shard, name, SECRET) as reader,
        on_shard(broker, shard, name, SECRET) as writer,
    ):
        reader.get_streams()
        if how == "deleted":
            root.delete_user(name)
        else:
            root.update_user(name, active=False)

        assert code_of(reader.get_streams) == ErrorCode.UNAUTHENTICATED
        assert code_of(reader.get_me) == ErrorCode.UNAUTHENTICATED
        reader.ping()
        with pytest.raises(SessionLostError, match="UNAUTHENTICATED"):
            writer.create_stream(new_name())
        users = {client.user_id for client in root.get_clients()}
        assert users <= {user.id for user in root.get_users()}


def test_a_changed_password_counts_from_now_on(broker: BrokerProcess, root: Client) -> None:
    name = new_name()
    root.create_user(name, SECRET)
    with Client.connect(broker.address, name, SECRET) as session:
        wrong = code_of(lambda: root.change_password(name, "not this one", "another"))
        assert wrong == ErrorCode.INVALID_CREDENTIALS  # administrators must know it too
        short = code_of(lambda: root.change_password(name, SECRET, "ab"))
        assert short == ErrorCode.INVALID_PASSWORD
        session.change_password(name, SECRET, "another")
        session.get_me()  # goes on
    old = code_of(lambda: Client.connect(broker.address, name, SECRET))
    assert old == ErrorCode.INVALID_CREDENTIALS
    Client.connect(broker.address, name, "another").close()


def test_the_official_client_manages_users(broker: BrokerProcess) -> None:
    async def work() -> None:
        client = IggyClient(broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        name, other = new_name(), new_name()
        await client.create_user(name, SECRET, UserStatus.Active, None)
        found = await client.get_user(name)
        assert found is not None and found.username == name
        assert name in [user.username for user in await client.get_users()]
        await client.update_user(name, username=other, status=UserStatus.Inactive)
        changed = await client.get_user(other)
        assert changed is not None and changed.status == UserStatus.Inactive
        await client.change_password(other, SECRET, "another")
        await client.update_permissions(other, None)
        with pytest.raises(RuntimeError, match="already exists"):
            await client.create_user(other, SECRET, UserStatus.Active, None)
        await client.delete_user(other)
        assert await client.get_user(other) is None

    asyncio.run(work())


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_logs_its_owner_in(broker: BrokerProcess, root: Client) -> None:
    name = new_name()
    made = root.create_user(name, SECRET)
    with Client.connect(broker.address, name, SECRET) as owner:
        token = owner.create_access_token("ci")
        assert len(base64.b64decode(token)) == 50
        owner.create_access_token("short", 3_600_000_000)
        never, later = owner.get_access_tokens()
        assert (never.name, never.expires_at_us, later.name) == ("ci", 0, "short")
        assert later.expires_at_us > made.user.created_at_us + 3_600_000_000 - 1
        taken = code_of(lambda: owner.create_access_token("ci"))
        assert taken == ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
        root.create_access_token(name)  # another owner, any name
        assert [one.name for one in root.get_access_tokens() if one.name == "ci"] == []

        with Client(broker.address) as other:
            assert other.login_with_token(token).user_id == made.user.id
            assert code_of(other.get_streams) == ErrorCode.UNAUTHORIZED
            root.update_permissions(name, SOME)
            other.get_stats()
            owner.delete_access_token("ci")
            other.get_stats()  # goes on
            gone = code_of(lambda: owner.delete_access_token("ci"))
            assert gone == ErrorCode.RESOURCE_NOT_FOUND
        with Client(broker.address) as late:
            refused = code_of(lambda: late.login_with_token(token))
            assert refused == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN


def test_tokens_of_inactive_and_deleted_users_are_worth_nothing(
    broker: BrokerProcess, root: Client
) -> None:
    name = new_name()
    root.create_user(name, SECRET)
    with Client.connect(broker.address, name, SECRET) as owner:
        token = owner.create_access_token("ci")
    root.update_user(name, active=False)
    assert login_eviction(broker, token) == EvictionReason.USER_INACTIVE
    root.update_user(name, active=True)
    assert login_eviction(broker, token) is None
    root.delete_user(name)
    assert login_eviction(broker, token) == EvictionReason.INVALID_TOKEN
    assert login_eviction(broker, "no token at all") == EvictionReason.INVALID_TOKEN


def login_eviction(broker: BrokerProcess, token: str) -> EvictionReason | None:
    with RawClient(broker.tcp_port) as raw:
        body = LoginWithToken(P11.version, "tests", "1", token).encode()
        header, _ = raw.exchange(Operation.REGISTER, body)
        return EvictionReason(header.reason) if isinstance(header, EvictionHeader) else None


def test_a_retried_token_is_not_shown_again(broker: BrokerProcess) -> None:
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        frame = raw.frame(CreatePersonalAccessToken(new_name()))
        raw.send(frame)
        _, made = raw.receive()
        assert split_result(made)[0] == 0
        raw.send(frame)
        header, again = raw.receive()
        assert isinstance(header, ReplyHeader) and header.status == 0
        assert split_result(again)[0] == ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
        assert len(again) == 12


def test_a_user_has_a_hundred_tokens(broker: BrokerProcess, root: Client) -> None:
    async def work(name: str) -> None:
        async with await AsyncClient.connect(broker.address, name, SECRET) as owner:
            for number in range(100):
                await owner.create_access_token(f"token {number}")
            for token in ("one more", "token 1"):  # the limit is told before the name
                with pytest.raises(ClientError) as refusal:
                    await owner.create_access_token(token)
                assert refusal.value.code == ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
            await owner.delete_access_token("token 1")
            await owner.create_access_token("one more")
            assert len(await owner.get_access_tokens()) == 100

    name = new_name()
    root.create_user(name, SECRET)
    asyncio.run(work(name))


def test_a_token_that_ends_after_time_is_refused(root: Client) -> None:
    refused = code_of(lambda: root.create_access_token("endless", (1 << 64) - 2))
    assert refused == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY
    name = new_name()
    root.create_access_token(name, (1 << 64) - 1)
    assert [one.expires_at_us for one in root.get_access_tokens() if one.name == name] == [0]


def test_expired_tokens_are_refused_and_removed(tmp_path: Path) -> None:
    settings = {"IGGY_PERSONAL_ACCESS_TOKEN_CLEANER_INTERVAL": "20ms"}
    with running_broker(tmp_path, settings=settings) as broker, broker.client() as root:
        token = root.create_access_token("short", 1)
        root.create_access_token("long", 3_600_000_000)
        assert login_eviction(broker, token) == EvictionReason.INVALID_TOKEN
        deadline = time.monotonic() + START_S
        while [one.name for one in root.get_access_tokens()] != ["long"]:
            assert time.monotonic() < deadline, "the cleaner does not come"
        root.create_stream("changes go on after a pass of the cleaner")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_users_passwords_permissions_and_tokens_survive(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        with broker.client() as root:
            made = root.create_user("alice", SECRET, permissions=SOME)
            root.create_user("sleeper", SECRET, active=False)
            root.change_password("alice", SECRET, "another")
            token = root.create_access_token("ci")
        broker.stop() if end == "stop" else broker.kill()
        broker.start()
        with broker.client() as root:
            assert root.get_user("alice") == made
            assert [user.name for user in root.get_users()] == [USERNAME, "alice", "sleeper"]
            assert [one.name for one in root.get_access_tokens()] == ["ci"]
        with Client.connect(broker.address, "alice", "another") as alice:
            alice.get_stats()
        assert login_eviction(broker, token) is None
        for name, password in (("alice", SECRET), ("sleeper", SECRET)):
            refused = code_of(
                lambda who=name, word=password: Client.connect(broker.address, who, word)
            )  # type: ignore[misc]
            assert refused == ErrorCode.INVALID_CREDENTIALS
        assert broker.stop() == 0
    finally:
        broker.end()
    told = broker.text()
    assert "another" not in told and SECRET not in told and token not in told
