"""Users, permissions and tokens, case by case, on a broker with two shards."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from access_cases import code_of, on_shard
from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import Client
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.requests import CreatePersonalAccessToken, LoginWithToken
from iggy_wire.results import split_result
from raw_frames import RawClient

SECRET = "of-some-user"
DENIED = ErrorCode.UNAUTHORIZED


def new_name() -> str:
    return f"user-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def user(root: Client) -> Iterator[str]:
    """A user without any rights."""
    name = new_name()
    root.create_user(name, SECRET)
    yield name
    if root.get_user(name) is not None:
        root.delete_user(name)


def test_root_is_the_first_user_and_needs_no_record(root: Client) -> None:
    found = root.get_user(0)
    assert found is not None
    assert (found.user.id, found.user.name, found.user.status) == (0, USERNAME, 1)
    assert found.permissions is None
    assert root.get_users()[0] == found.user


def test_new_users_take_the_lowest_free_number(root: Client) -> None:
    names = [new_name() for _ in range(4)]
    first, second, third = (root.create_user(name, SECRET).user.id for name in names[:3])
    root.delete_user(second)
    assert root.create_user(names[3], SECRET).user.id == second
    listed = [one.id for one in root.get_users()]
    assert listed == sorted(listed) and {first, second, third} <= set(listed)
    for number in (first, second, third):
        root.delete_user(number)


def test_a_name_may_stay_and_is_taken_once(root: Client, user: str) -> None:
    other = root.create_user(new_name(), SECRET).user
    before = root.get_user(user)
    root.update_user(user)
    root.update_user(user, username=user)
    assert root.get_user(user) == before
    assert code_of(lambda: root.update_user(user, username=other.name)) == (
        ErrorCode.USER_ALREADY_EXISTS
    )
    assert code_of(lambda: root.create_user(user, SECRET)) == ErrorCode.USER_ALREADY_EXISTS
    assert root.get_user(user) == before
    root.delete_user(other.id)


@pytest.mark.parametrize("shard", [0, 1])
def test_a_user_sees_himself_and_nobody_else(
    broker: BrokerProcess, root: Client, user: str, shard: int
) -> None:
    with on_shard(broker, shard, user, SECRET) as client:
        mine = client.get_user(user)
        assert mine is not None and mine.user.name == user
        assert client.get_user(mine.user.id) == mine
        assert client.get_me().client.user_id == mine.user.id
        doings: list[Callable[[], object]] = [
            lambda: client.get_user(USERNAME),
            lambda: client.get_user(0),
            client.get_users,
            lambda: client.change_password(USERNAME, PASSWORD, SECRET),
            lambda: client.change_password(0, PASSWORD, SECRET),
            lambda: client.delete_user(user),
            lambda: client.update_user(user, username=new_name()),
            lambda: client.update_permissions(user, Permissions(GlobalPermissions(*[True] * 10))),
        ]
        for number, doing in enumerate(doings):
            assert code_of(doing) == DENIED, number
        client.change_password(user, SECRET, "another")
        client.change_password(mine.user.id, "another", SECRET)
    broker.client().close()


def test_nobody_deletes_strips_or_stops_root(
    broker: BrokerProcess, root: Client, user: str
) -> None:
    root.update_permissions(user, Permissions(GlobalPermissions(*[True] * 10)))
    with Client.connect(broker.address, user, SECRET) as manager:
        for client in (manager, root):
            for whom in (0, USERNAME):
                strip = partial(client.update_permissions, whom, None)
                stop = partial(client.update_user, whom, active=False)
                guess = partial(client.change_password, whom, "guessed", SECRET)
                refused = [
                    code_of(partial(client.delete_user, whom)),
                    *(code_of(doing) for doing in (strip, stop, guess)),
                ]
                assert refused == [
                    ErrorCode.CANNOT_DELETE_USER,
                    ErrorCode.CANNOT_CHANGE_PERMISSIONS,
                    ErrorCode.INVALID_USER_STATUS,
                    ErrorCode.INVALID_CREDENTIALS,
                ]
    with broker.client() as client:
        client.get_users()


def test_rights_count_from_the_next_request_on(
    broker: BrokerProcess, root: Client, user: str
) -> None:
    with on_shard(broker, 0, user, SECRET) as one, on_shard(broker, 1, user, SECRET) as other:
        for granted in (Permissions(GlobalPermissions(read_servers=True)), None):
            root.update_permissions(user, granted)
            expected = None if granted else DENIED
            assert [code_of(one.get_stats), code_of(other.get_stats)] == [expected, expected]


def test_passwords_and_tokens_are_on_the_disk_as_hashes_only(
    broker: BrokerProcess, root: Client, user: str
) -> None:
    token = root.create_access_token(new_name())
    root.change_password(user, SECRET, "another-of-them")
    files = [path for path in (broker.data / "metadata").rglob("*") if path.is_file()]
    everything = b"".join(path.read_bytes() for path in files)
    assert b"$argon2id$" in everything
    for secret in (SECRET, PASSWORD, "another-of-them", token):
        assert secret.encode() not in everything


# -- tokens ----------------------------------------------------------------------------------------


def test_names_of_tokens_have_a_length_only(broker: BrokerProcess) -> None:
    """Iggy protocol 0.11: 3 to 30 characters are asked for by clients and HTTP, not here."""
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        for name in ("a", "ab", "x" * 31, "ü" * 127, "x" * 255):
            _, body = raw.ask(CreatePersonalAccessToken(name))
            assert split_result(body)[0] in (0, ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
        header, body = raw.exchange(Operation.CREATE_PERSONAL_ACCESS_TOKEN, bytes(9))  # no name
        assert isinstance(header, ReplyHeader)
        assert (header.status, body) == (ErrorCode.INVALID_COMMAND, b"")


def test_expiries_are_moments_or_never(root: Client, user: str) -> None:
    hour_us = 3_600_000_000
    names = [new_name() for _ in range(3)]
    for name, expiry in zip(names, (0, (1 << 64) - 1, hour_us), strict=True):
        root.create_access_token(name, expiry)
    listed = {one.name: one.expires_at_us for one in root.get_access_tokens()}
    assert [listed[name] for name in names[:2]] == [0, 0]
    made = root.create_user(new_name(), SECRET).user
    assert made.created_at_us < listed[names[2]] <= made.created_at_us + hour_us
    assert list(listed) == sorted(listed), "by name"
    root.delete_user(made.id)
    for name in names:
        root.delete_access_token(name)


def eviction(broker: BrokerProcess, token: str) -> EvictionReason | None:
    with RawClient(broker.tcp_port) as raw:
        body = LoginWithToken(P11.version, "tests", "1", token).encode()
        header, _ = raw.exchange(Operation.REGISTER, body)
        return EvictionReason(header.reason) if isinstance(header, EvictionHeader) else None


def test_a_token_is_known_to_every_shard_at_once_and_to_none_when_it_is_gone(
    broker: BrokerProcess, root: Client
) -> None:
    name = new_name()
    token = root.create_access_token(name)
    assert [eviction(broker, token) for _ in range(50)] == [None] * 50
    root.delete_access_token(name)
    assert [eviction(broker, token) for _ in range(50)] == [EvictionReason.INVALID_TOKEN] * 50


def test_many_log_in_with_one_token_at_the_same_time(broker: BrokerProcess, root: Client) -> None:
    token = root.create_access_token(new_name())
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(broker.address)) for _ in range(50)]
        sessions = {client.login_with_token(token).session for client in clients}
        assert len(sessions) == 50
        listed = {one.client_id for one in root.get_clients()}
        assert {client.get_me().client.client_id for client in clients} <= listed
