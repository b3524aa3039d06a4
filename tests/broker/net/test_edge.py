"""Sessions that arrive from another shard, and what became of them on the way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from iggy_broker.metadata import credentials, model, user_changes
from iggy_broker.net.clients import Clients, Taken, TakeOver
from iggy_broker.net.connection import BUSY, Connection
from iggy_broker.net.edge import Edge
from iggy_broker.net.handover import Doors
from iggy_broker.net.intake import Landing
from iggy_broker.net.peers import Links
from iggy_broker.net.requests import serve_request
from iggy_broker.net.session import Session
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.requests import Login, LoginWithToken
from iggy_wire.results import split_result
from one_shard import Caller, with_broker

CLIENT = bytes(15) + b"\x07"


def arrival(client: bytes = CLIENT, *, number: int = 50, user_since_us: int = 1) -> Session:
    """A session of root, as it comes through a door."""
    session = Session(client_number=4, address="127.0.0.1:9")
    session.bind(client=client, number=number, user_id=0, user_since_us=user_since_us)
    return session


THEIRS: list[socket.socket] = []  # the clients' ends


async def arrived(edge: Edge, session: Session) -> Connection:
    ours, theirs = socket.socketpair()
    THEIRS.append(theirs)
    loop = asyncio.get_running_loop()
    connection = Connection(edge, session)
    await loop.connect_accepted_socket(lambda: connection, ours)
    return connection


def with_edge(root: Path, work: Callable[[Edge, Caller], Awaitable[None]]) -> None:
    async def run(caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        edge = Edge(caller.services, loop=loop, landing=Landing(), links=Links())
        await work(edge, caller)
        for theirs in THEIRS:
            theirs.close()
        THEIRS.clear()
        for connection in list(edge.connections):
            connection.abort()
        await asyncio.sleep(0)
        assert not edge.connections

    with_broker(root, run)


def test_who_does_not_log_in_makes_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        edge.connections_max = 3
        known = await arrived(edge, arrival())
        first, second = [await arrived(edge, stranger(number)) for number in (5, 6)]
        refused = await arrived(edge, stranger(7))
        assert not refused.is_connected, "nobody has waited for long"

        monkeypatch.setattr("iggy_broker.net.edge.STRANGER_S", 0.0)
        third = await arrived(edge, stranger(8))
        await asyncio.sleep(0)
        assert list(edge.connections) == [known, second, third]
        assert not first.is_connected

        edge.end_session(known)  # it is a stranger from now, and the newest
        fourth, fifth, sixth = [await arrived(edge, stranger(number)) for number in (9, 10, 11)]
        await asyncio.sleep(0)
        assert list(edge.connections) == [fourth, fifth, sixth]

    with_edge(tmp_path, work)


def test_a_stranger_who_is_being_served_keeps_nobody_else_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        edge.connections_max = 2
        busy, idle = [await arrived(edge, stranger(number)) for number in (5, 6)]
        busy._blocked |= BUSY
        monkeypatch.setattr("iggy_broker.net.edge.STRANGER_S", 0.0)

        new = await arrived(edge, stranger(7))
        await asyncio.sleep(0)

        assert list(edge.connections) == [busy, new]
        assert not idle.is_connected
        new._blocked |= BUSY
        refused = await arrived(edge, stranger(8))
        assert not refused.is_connected

    with_edge(tmp_path, work)


def stranger(number: int) -> Session:
    """A connection that has not logged in."""
    return Session(client_number=number, address="127.0.0.1:9")


def test_a_session_goes_on_where_it_arrives(tmp_path: Path) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        connection = await arrived(edge, arrival())

        assert edge.by_client == {CLIENT: connection}
        (listed,) = await edge.clients.all()
        assert (listed.client_number, listed.user_id, listed.session) == (4, 0, 50)
        edge.release(connection)
        assert await edge.clients.all() == []

    with_edge(tmp_path, work)


def test_a_session_whose_user_was_made_anew_ends(tmp_path: Path) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        ended: list[int] = []
        edge.on_session_ended = ended.append
        connection = await arrived(edge, arrival(user_since_us=12345))

        assert connection.session.user_id is None
        assert (edge.by_client, ended) == ({}, [50])

    with_edge(tmp_path, work)


def test_a_session_whose_client_id_was_taken_on_the_way_ends(tmp_path: Path) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        question = msgspec.msgpack.encode(TakeOver(CLIENT, user_id=0, number=51))
        await edge.clients.answer(question)

        late = await arrived(edge, arrival(number=50))
        assert late.session.user_id is None
        later = await arrived(edge, arrival(number=52))
        assert edge.by_client == {CLIENT: later}
        second = await arrived(edge, arrival(number=53))
        assert second.session.user_id is None
        assert edge.by_client == {CLIENT: later}

    with_edge(tmp_path, work)


def test_a_session_that_comes_without_its_connection_ends_and_the_next_one_arrives(
    tmp_path: Path,
) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        ended: list[int] = []
        edge.on_session_ended = ended.append
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        doors = Doors(edge, {1: ours}, lambda session: Connection(edge, session))
        doors.open()
        client, server = socket.socketpair()
        THEIRS.extend((client, theirs))

        theirs.send(moved(number=50))  # as when no descriptor is left here
        socket.send_fds(theirs, [moved(number=51)], [server.fileno()])
        server.close()
        while not edge.by_client:  # noqa: ASYNC110 -- it is a value
            await asyncio.sleep(0)

        assert ended == [50]
        assert edge.by_client[CLIENT].session.number == 51
        doors.close()

    with_edge(tmp_path, work)


def moved(*, number: int) -> bytes:
    """A session of root as one shard writes it for another."""
    return msgspec.msgpack.encode((CLIENT, 4, "127.0.0.1:9", number, 0, 1, 0, {}))


def test_a_user_who_is_deleted_while_memberships_move_is_not_logged_in(tmp_path: Path) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        submit = caller.services.replica.submit
        stored = credentials.hash_password("of alice")
        made = (await submit(user_changes.CreateUser("alice", stored))).user
        assert made is not None
        old = await arrived(edge, arrival(bytes(15) + b"\x08"))
        edge.bind(old, CLIENT, made, 60)
        moving, gone = asyncio.Event(), asyncio.Event()

        async def move(before: int, after: int) -> None:
            assert before == 60 < after
            moving.set()
            await gone.wait()

        edge.on_session_moved = move
        new = await arrived(edge, Session(client_number=9, address="127.0.0.1:10"))
        logging_in = asyncio.ensure_future(logged_in(edge, new, login_of("alice", "of alice")))
        await moving.wait()
        assert edge.by_client[CLIENT] is new
        await submit(user_changes.DeleteUser("alice"))
        gone.set()
        await logging_in

        assert new.session.user_id is None
        assert edge.by_client == {}

    with_edge(tmp_path, work)


@pytest.mark.parametrize("by_token", [True, False])
def test_a_password_that_changes_during_a_login_concerns_who_logs_in_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_token: bool
) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        submit = caller.services.replica.submit
        stored, changed = credentials.hash_token("of alice"), credentials.hash_token("another")
        alice = (await submit(user_changes.CreateUser("alice", stored))).user
        assert alice is not None
        token = user_changes.CreateToken("t", credentials.hash_token("of her token"))
        await submit(token, caller=model.Caller(alice.id, alice.created_at_us))
        take_over = edge.clients.take_over

        async def change_and_take_over(
            _: Clients, client: bytes, user_id: int, number: int
        ) -> Taken:
            await submit(user_changes.SetPassword("alice", changed, verified_hash=stored))
            return await take_over(client, user_id, number)

        monkeypatch.setattr(Clients, "take_over", change_and_take_over)
        connection = await arrived(edge, Session(client_number=9, address="127.0.0.1:10"))
        if by_token:
            login: Login | LoginWithToken = LoginWithToken(P11.version, "s", "1", "of her token")
        else:
            login = Login(P11.version, "s", "1", "alice", "of alice")
        await logged_in(edge, connection, login)

        assert connection.session.user_id == (alice.id if by_token else None)

    with_edge(tmp_path, work)


def login_of(name: str, password: str) -> Login:
    return Login(P11.version, "tests", "1", name, password)


async def logged_in(edge: Edge, connection: Connection, login: Login | LoginWithToken) -> bytes:
    """The answer to a login."""
    body = login.encode()
    header = RequestHeader(Operation.REGISTER, client=CLIENT, size=HEADER_BYTES + len(body))
    return await serve_request(edge, connection, header, header.encode() + body)


def test_a_login_that_finds_the_queue_full_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggy_broker.net.passwords.WAITING_MAX", 0)

    async def work(edge: Edge, caller: Caller) -> None:
        connection = await arrived(edge, Session(client_number=4, address="127.0.0.1:9"))
        reply = await logged_in(edge, connection, login_of("iggy", "some password"))

        assert ReplyHeader.decode(reply).status == 0
        code, _ = split_result(reply[HEADER_BYTES:])
        assert code == ErrorCode.TRANSIENT_NOT_ACCEPTED
        assert connection.is_connected

    with_edge(tmp_path, work)


def test_sessions_end_with_their_user(tmp_path: Path) -> None:
    async def work(edge: Edge, caller: Caller) -> None:
        submit = caller.services.replica.submit
        made = (await submit(user_changes.CreateUser("alice", "hash"))).user
        assert made is not None
        other = bytes(15) + b"\x08"
        root = await arrived(edge, arrival())
        alice = await arrived(edge, arrival(other))
        edge.bind(alice, other, made, 60)

        await submit(user_changes.SetPermissions("alice", b""))
        await submit(user_changes.UpdateUser("alice", "bob"))
        assert edge.by_client == {CLIENT: root, other: alice}
        await submit(user_changes.UpdateUser("bob", active=False))
        assert edge.by_client == {CLIENT: root}
        assert alice.session.user_id is None

    with_edge(tmp_path, work)
