"""Passwords that arrive together: as few hashes as there are different ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from iggy_broker.errors import Deny
from iggy_broker.metadata import credentials
from iggy_broker.metadata.model import User
from iggy_broker.net.passwords import Passwords


@pytest.fixture(name="hashed")
def make_hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every password that was compared with a stored hash."""
    hashed: list[str] = []
    verify = credentials.verify

    def counted(stored: str, password: str) -> bool:
        hashed.append(password)
        return verify(stored, password)

    monkeypatch.setattr(credentials, "verify", counted)
    return hashed


@pytest.fixture(name="passwords")
def make_passwords() -> Iterator[Passwords]:
    passwords = Passwords()
    yield passwords
    passwords.close()


USER = User(1, "somebody", credentials.hash_password("right"), active=True, created_at_us=1)


def log_in(passwords: Passwords, tries: list[tuple[User | None, str]]) -> list[bool]:
    async def together() -> list[bool]:
        return list(await asyncio.gather(*(passwords.logs_in(*one) for one in tries)))

    return asyncio.run(together())


def test_a_storm_of_the_same_login_costs_one_hash(passwords: Passwords, hashed: list[str]) -> None:
    assert log_in(passwords, [(USER, "right")] * 500) == [True] * 500
    assert log_in(passwords, [(USER, "right")] * 500) == [True] * 500

    assert hashed == ["right"]


def test_wrong_ones_are_hashed_each_time(passwords: Passwords, hashed: list[str]) -> None:
    tries: list[tuple[User | None, str]] = [(USER, "wrong"), (None, "right"), (USER, "right")]
    assert log_in(passwords, tries) == [False, False, True]
    assert log_in(passwords, tries) == [False, False, True]

    assert sorted(hashed) == ["right", "right", "right", "wrong", "wrong"]


def test_a_full_queue_is_no_wrong_password(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(passwords, [(USER, "right")]) == [True]
    monkeypatch.setattr("iggy_broker.net.passwords.WAITING_MAX", 0)

    assert log_in(passwords, [(USER, "right")]) == [True], "known by now"
    for user in (USER, None):
        with pytest.raises(Deny, match="TRANSIENT_NOT_ACCEPTED"):
            log_in(passwords, [(user, "another")])


def test_the_queue_is_as_long_as_it_may_be_also_when_all_come_at_once(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggy_broker.net.passwords.WAITING_MAX", 3)

    async def together() -> list[bool | BaseException]:
        tries = [passwords.logs_in(USER, f"wrong {number}") for number in range(10)]
        return await asyncio.gather(*tries, return_exceptions=True)

    answers = asyncio.run(together())

    assert answers[:3] == [False] * 3
    assert all(isinstance(answer, Deny) for answer in answers[3:])
    assert passwords.waiting == 0


def test_who_leaves_takes_nothing_from_the_others(passwords: Passwords) -> None:
    async def together() -> bool:
        first = asyncio.ensure_future(passwords.logs_in(USER, "right"))
        second = asyncio.ensure_future(passwords.logs_in(USER, "right"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(together())
