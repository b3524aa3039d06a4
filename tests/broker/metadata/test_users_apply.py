"""What changes of users and tokens do, and that journals and snapshots of any age keep them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import changes, journal, user_changes
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry, decode_entries, encode_entries
from iggy_broker.metadata.journal import encode_snapshot, load
from iggy_broker.metadata.model import MOMENT_US_MAX, State
from iggy_wire.errors import ErrorCode
from iggy_wire.kernel import xxh3_64
from metadata_cases import HISTORIES, QuickDisk, accepted_entries, replayed

ROOT = changes.CreateRoot("root", "hash of root")
ALICE = user_changes.CreateUser("alice", "hash of alice", permissions=b"whatever")


def after(*history: AnyChange, user_id: int = 0, start: State | None = None) -> State:
    entries = accepted_entries(history, start, user_id=user_id)
    assert len(entries) == len(history), "every change of this example is accepted"
    return replayed(entries, start)


def refusal(state: State, change: AnyChange, *, user_id: int = 0) -> ErrorCode:
    with pytest.raises(Reject) as caught:
        apply(state, Entry(state.op + 1, 5000, user_id, change))
    return caught.value.code


@given(st.lists(st.just(ROOT), max_size=1), HISTORIES, st.sampled_from([0, 1]))
def test_indexes_agree_after_any_history(
    root: list[AnyChange], history: list[AnyChange], user_id: int
) -> None:
    state = replayed(accepted_entries([*root, *history], user_id=user_id))

    assert state.user_names == {user.name: number for number, user in state.users.items()}
    assert all(user.id == number for number, user in state.users.items())
    assert state.token_owners == {
        token.token_hash: user.id for user in state.users.values() for token in user.tokens.values()
    }
    for user in state.users.values():
        assert all(token.name == name for name, token in user.tokens.items())


def test_users_get_the_lowest_free_ids() -> None:
    names = [user_changes.CreateUser(f"user{n}", "h") for n in range(3)]
    state = after(ROOT, *names, user_changes.DeleteUser("user1"), ALICE)

    assert {user.name: number for number, user in state.users.items()} == {
        "root": 0, "user0": 1, "user2": 3, "alice": 2,
    }  # fmt: skip


def test_a_created_user_comes_with_the_result() -> None:
    state = after(ROOT)
    applied = apply(state, Entry(2, 77, 0, ALICE))

    made = applied.result.user
    assert made is not None
    assert (made.id, made.name, made.created_at_us, made.permissions) == (
        1, "alice", 77, b"whatever",
    )  # fmt: skip
    assert applied.state.users[1] is made


def test_what_root_is_spared() -> None:
    state = after(ROOT)

    assert refusal(state, user_changes.DeleteUser("root")) == ErrorCode.CANNOT_DELETE_USER
    assert refusal(state, user_changes.SetPermissions(0)) == ErrorCode.CANNOT_CHANGE_PERMISSIONS
    inactive = user_changes.UpdateUser(0, active=False)
    assert refusal(state, inactive) == ErrorCode.INVALID_USER_STATUS
    renamed = after(ROOT, user_changes.UpdateUser(0, "admin"))
    assert renamed.user_names == {"admin": 0}


@pytest.mark.parametrize(
    "change",
    [
        user_changes.UpdateUser("bob"),
        user_changes.DeleteUser(7),
        user_changes.SetPermissions("bob"),
        user_changes.SetPassword(7, "new", "old"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_missing_user_is_not_found(change: AnyChange) -> None:
    assert refusal(after(ROOT), change) == ErrorCode.RESOURCE_NOT_FOUND


def test_names_are_taken_once() -> None:
    state = after(ROOT, ALICE)

    assert refusal(state, ALICE) == ErrorCode.USER_ALREADY_EXISTS
    taken = user_changes.UpdateUser("alice", "root")
    assert refusal(state, taken) == ErrorCode.USER_ALREADY_EXISTS
    same = after(ROOT, ALICE, user_changes.UpdateUser("alice", "alice", active=False))
    assert same.users[1].active is False
    nothing = user_changes.UpdateUser("alice")
    assert after(ROOT, ALICE, nothing).users == state.users


def test_a_password_is_only_changed_by_who_knew_the_one_of_now() -> None:
    state = after(ROOT, ALICE)
    late = user_changes.SetPassword(1, "new", verified_hash="an older one")

    assert refusal(state, late) == ErrorCode.INVALID_CREDENTIALS
    good = user_changes.SetPassword("alice", "new", verified_hash="hash of alice")
    assert after(ROOT, ALICE, good).users[1].password_hash == "new"


def test_tokens_belong_to_who_asks() -> None:
    start = after(ROOT, ALICE)
    mine = user_changes.CreateToken("ci", "hash 1", lifetime_us=500)
    state = after(mine, user_id=1, start=start)
    state = after(user_changes.CreateToken("ci", "hash 2"), user_id=0, start=state)

    found = state.find_token("hash 1")
    assert found is not None
    assert (found[0].name, found[1].name) == ("alice", "ci")
    assert found[1].expires_at_us == 1000 + start.op + 500
    assert refusal(state, mine, user_id=1) == ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    gone = after(user_changes.DeleteToken("ci"), user_id=1, start=state)
    assert gone.find_token("hash 1") is None
    assert gone.find_token("hash 2") is not None
    missing = user_changes.DeleteToken("ci")
    assert refusal(gone, missing, user_id=1) == ErrorCode.RESOURCE_NOT_FOUND
    assert refusal(gone, mine, user_id=9) == ErrorCode.UNAUTHORIZED


def test_the_limit_of_tokens_is_told_before_the_name() -> None:
    state = after(ROOT, user_changes.CreateToken("one", "hash 1", tokens_max=1))
    again = user_changes.CreateToken("one", "hash 2", tokens_max=1)

    with pytest.raises(Deny) as caught:  # a status word
        apply(state, Entry(state.op + 1, 1, 0, again))
    assert caught.value.code == ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED


def test_a_token_cannot_outlive_time() -> None:
    state = after(ROOT)
    change = user_changes.CreateToken("one", "hash", lifetime_us=MOMENT_US_MAX)

    assert refusal(state, change) == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY


def test_expired_tokens_go_and_the_others_stay() -> None:
    state = after(
        ROOT,
        user_changes.CreateToken("short", "hash 1", lifetime_us=1),
        user_changes.CreateToken("long", "hash 2", lifetime_us=1_000_000),
        user_changes.CreateToken("for ever", "hash 3"),
        user_changes.DropExpiredTokens(),
    )

    assert set(state.users[0].tokens) == {"long", "for ever"}
    assert set(state.token_owners) == {"hash 2", "hash 3"}


def test_tokens_die_with_their_owner() -> None:
    state = after(ROOT, ALICE)
    state = after(user_changes.CreateToken("ci", "hash 1"), user_id=1, start=state)
    state = after(user_changes.DeleteUser("alice"), start=state)

    assert state.find_token("hash 1") is None
    assert state.token_owners == {}


def history_of_users() -> list[Entry]:
    entries = accepted_entries(
        [
            ROOT,
            ALICE,
            user_changes.CreateToken("ci", "hash 1", lifetime_us=9),
            user_changes.UpdateUser("alice", "bob", active=False),
            user_changes.SetPassword("bob", "new hash", "hash of alice"),
            user_changes.SetPermissions("bob", b"others"),
        ]
    )
    assert len(entries) == 6
    return entries


def test_the_bytes_of_changes_are_read_back() -> None:
    entries = history_of_users()

    assert decode_entries(encode_entries(entries)) == entries


@pytest.mark.parametrize("entries_max", [100, 2], ids=["journal", "snapshots"])
def test_users_and_tokens_survive_a_restart(tmp_path: Path, entries_max: int) -> None:
    def opened() -> journal.Recovered:
        return load(str(tmp_path), disk=QuickDisk(), entries_max=entries_max)

    recovered = opened()
    state = recovered.state
    for entry in history_of_users():
        state = apply(state, entry).state
        asyncio.run(recovered.journal.append(state, [entry]))
        recovered.journal.close()

    assert opened().state == state


@pytest.mark.parametrize("version", [1, 2])
def test_a_snapshot_of_an_older_format_is_read(tmp_path: Path, version: int) -> None:
    """The same, without the fields that came with format 2 (tokens) and 3 (defaults of topics)."""
    state = after(ROOT, changes.CreateStream("s"), changes.CreateTopic("s", "t", 2))
    whole = encode_snapshot(state)
    fields = msgspec.msgpack.decode(whole[16:-8], strict=False)
    del fields["streams"][0]["topics"][0]["defaults"]
    if version == 1:
        del fields["token_owners"], fields["memberships"]
        for user in fields["users"].values():
            del user["tokens"]
    number = version.to_bytes(4, "little")
    old = whole[:8] + number + whole[12:16] + msgspec.msgpack.encode(fields)
    folder = tmp_path / "metadata"
    folder.mkdir()
    (folder / "snapshot.bin").write_bytes(old + xxh3_64(old).to_bytes(8, "little"))
    (folder / "journal.wal").write_bytes(b"IGKJRNL\0" + number + bytes(4))

    recovered = load(str(tmp_path), disk=QuickDisk(), entries_max=100)

    assert recovered.state == state
    entry = Entry(state.op + 1, 9, 0, user_changes.CreateToken("ci", "hash 1"))
    after_it = apply(state, entry).state
    asyncio.run(recovered.journal.append(after_it, [entry]))
    recovered.journal.close()
    assert load(str(tmp_path), disk=QuickDisk(), entries_max=100).state == after_it
