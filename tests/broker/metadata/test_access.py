"""The access table against the matrix of the protocol, command by command and flag by flag."""

from __future__ import annotations

import typing

import pytest

from iggy_broker.errors import Reject
from iggy_broker.metadata import access, changes, user_changes
from iggy_broker.metadata.access import Target, authorize, authorize_change
from iggy_broker.metadata.change_base import Change
from iggy_broker.metadata.changes import AnyChange
from iggy_broker.metadata.model import State
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from metadata_cases import accepted_entries, replayed
from permission_matrix import GRANTS, MATRIX, is_enough, permissions_of

ALICE = 1
# Commands whose body names a stream, or a stream and a topic.
OF_STREAM = {
    Command.GET_STREAM, Command.UPDATE_STREAM, Command.DELETE_STREAM, Command.PURGE_STREAM,
    Command.GET_TOPICS, Command.CREATE_TOPIC,
}  # fmt: skip
OF_USER = {
    Command.GET_USER, Command.UPDATE_USER, Command.DELETE_USER, Command.UPDATE_PERMISSIONS,
    Command.CHANGE_PASSWORD,
}  # fmt: skip
OF_TOPIC = {
    command
    for command, row in MATRIX.items()
    if row is not None and row[2] and command not in OF_STREAM
}


def broker_of(permissions: Permissions | None, *, active: bool = True) -> State:
    """Two streams with two topics each, and the user alice."""
    wire = b"" if permissions is None else permissions.encode()
    history: list[AnyChange] = [changes.CreateRoot("root", "hash")]
    for stream in ("s", "other"):
        history.append(changes.CreateStream(stream))
        history += [changes.CreateTopic(stream, topic, 1) for topic in ("t", "other")]
    history.append(user_changes.CreateUser("alice", "hash", active, wire))
    entries = accepted_entries(history)
    assert len(entries) == len(history)
    return replayed(entries)


def target_of(
    command: Command, *, stream: str = "s", topic: str = "t", user: str = "root"
) -> Target:
    if command in OF_TOPIC:
        return Target(stream, topic)
    if command in OF_STREAM:
        return Target(stream)
    return Target(user=user) if command in OF_USER else Target()


def may(state: State, command: Command, target: Target, user_id: int = ALICE) -> bool:
    try:
        authorize(state, user_id, command, target)
    except Reject as refusal:
        assert refusal.code is ErrorCode.UNAUTHORIZED
        return False
    return True


def test_the_table_has_every_command_of_the_matrix() -> None:
    assert set(access.ACCESS) == set(MATRIX)


@pytest.mark.parametrize("command", MATRIX, ids=lambda one: one.name.lower())
def test_one_flag_alone(command: Command) -> None:
    for grant in GRANTS:
        state = broker_of(permissions_of(grant, 0, 0))
        found = may(state, command, target_of(command))
        assert found == is_enough(command, grant), (command.name, grant)


@pytest.mark.parametrize("command", sorted(OF_TOPIC | OF_STREAM), ids=lambda one: one.name.lower())
def test_flags_of_one_place_say_nothing_of_another(command: Command) -> None:
    all_topic = TopicPermissions(0, True, True, True, True)
    all_stream = StreamPermissions(0, True, True, True, True, True, True)
    in_stream = broker_of(Permissions(streams=(all_stream,)))
    in_topic = broker_of(Permissions(streams=(StreamPermissions(0, topics=(all_topic,)),)))

    assert may(in_stream, command, target_of(command))
    assert not may(in_stream, command, target_of(command, stream="other"))
    assert not may(in_topic, command, target_of(command, topic="other", stream="other"))
    if command in OF_TOPIC:
        assert may(in_topic, command, target_of(command))
        assert not may(in_topic, command, target_of(command, topic="other"))


@pytest.mark.parametrize("command", MATRIX, ids=lambda one: one.name.lower())
def test_who_has_no_flags_may_do_what_all_may(command: Command) -> None:
    for permissions in (None, Permissions()):
        state = broker_of(permissions)
        assert may(state, command, target_of(command)) == (MATRIX[command] is None)


@pytest.mark.parametrize("command", MATRIX, ids=lambda one: one.name.lower())
def test_root_may_do_all_and_who_is_gone_nothing(command: Command) -> None:
    everything = Permissions(GlobalPermissions(*[True] * 10))
    state = broker_of(everything, active=False)

    assert may(state, command, target_of(command), user_id=0)
    assert not may(state, command, target_of(command))  # inactive
    assert not may(state, command, target_of(command), user_id=99)


@pytest.mark.parametrize("command", sorted(OF_TOPIC | OF_STREAM), ids=lambda one: one.name.lower())
def test_what_does_not_exist_is_not_found_for_everybody(command: Command) -> None:
    state = broker_of(None)

    assert may(state, command, target_of(command, stream="missing"))
    if command in OF_TOPIC:
        assert may(state, command, target_of(command, topic="missing"))


def test_users_who_do_not_exist_are_no_secret_to_those_who_may() -> None:
    for command in OF_USER:
        assert not may(broker_of(None), command, Target(user="missing"))


def test_oneself_needs_no_flag() -> None:
    state = broker_of(None)
    for command in (Command.GET_USER, Command.CHANGE_PASSWORD):
        for name in ("alice", ALICE):
            assert may(state, command, Target(user=name))
        assert not may(state, command, Target(user="root"))
    assert not may(state, Command.UPDATE_PERMISSIONS, Target(user="alice"))
    assert not may(state, Command.DELETE_USER, Target(user="alice"))


def test_clients_change_only_what_a_row_is_for() -> None:
    known = set(access.COMMAND_OF_CHANGE)
    own = set(typing.get_args(AnyChange)) - known

    assert own == {
        changes.CreateRoot,
        changes.EndSession,
        changes.MoveSession,
        changes.CompleteHandover,
        changes.SettleDefaults,
        user_changes.DropExpiredTokens,
    }
    state = broker_of(Permissions(GlobalPermissions(*[True] * 10)))
    change = changes.CreateRoot("mallory", "hash")
    with pytest.raises(Reject, match="UNAUTHORIZED"):
        authorize_change(state, ALICE, change)
    authorize_change(state, 0, change)


def test_a_change_is_decided_by_the_row_of_its_command() -> None:
    only_topic = broker_of(permissions_of(("topic", "manage_topic"), 0, 0))
    allowed: list[Change] = [
        changes.PurgeTopic("s", "t"),
        changes.CreateGroup(0, 0, "g"),
        changes.DeletePartitions("missing", "t", 1),
    ]
    refused: list[Change] = [
        changes.PurgeTopic("s", "other"),
        changes.PurgeStream("s"),
        changes.CreateStream("new"),
        user_changes.SetPermissions("alice"),
    ]

    for change in allowed:
        authorize_change(only_topic, ALICE, change)
    for change in refused:
        with pytest.raises(Reject, match="UNAUTHORIZED"):
            authorize_change(only_topic, ALICE, change)


def test_permissions_are_kept_in_order_and_once() -> None:
    topics = (TopicPermissions(5), TopicPermissions(1), TopicPermissions(5, manage_topic=True))
    given = Permissions(streams=(StreamPermissions(9), StreamPermissions(2, topics=topics)))

    kept = access.in_order(given)

    assert [stream.stream_id for stream in kept.streams] == [2, 9]
    assert kept.streams[0].topics == (TopicPermissions(1), TopicPermissions(5, manage_topic=True))
    assert access.decoded(kept.encode()) == kept
