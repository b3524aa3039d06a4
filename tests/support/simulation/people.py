"""Users, their permissions, passwords and tokens: what the admin makes, and what must hold then.

Nothing is judged while a change is under way: a request counts only if what is known of its user
was the same when it was sent and when it was answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from iggy_client import access_calls as access
from iggy_client.errors import ClientError, LinkError
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.replies import UserDetails
from simulation.clients import SimulatedClient
from simulation.oracle import Oracle, ViolationError

NAMES = ("ann", "bob")
LOST = (LinkError, ConnectionError)


@dataclass(frozen=True)
class Account:
    """A user as the admin made it."""

    made: int  # which of the users of that name
    era: int  # sessions of an earlier one are over
    password: str
    active: bool = True
    sends: bool = True
    polls: bool = True

    @property
    def permissions(self) -> Permissions:
        """What it may do, for the wire."""
        flags = GlobalPermissions(send_messages=self.sends, poll_messages=self.polls)
        return Permissions(flags)


@dataclass
class Known:
    """What is known of one name. `version` counts whatever may change an answer."""

    possible: frozenset[Account | None] = frozenset({None})
    version: int = 0
    unsettled: bool = False  # a change was cut off: until a restart it may still happen
    passwords: set[str] = field(default_factory=set)

    def only(self) -> Account | None:
        """The account, if it is certain."""
        return next(iter(self.possible)) if len(self.possible) == 1 else None

    def set(self, possible: set[Account | None]) -> None:
        """It may be one of these now."""
        self.possible, self.version = frozenset(possible), self.version + 1


@dataclass
class Token:
    """A personal access token that somebody was given."""

    name: str
    user: str
    made: int | None  # whose, as in `Account`; None: not certain
    alive: bool | None = True
    version: int = 0

    def set(self, alive: bool | None) -> None:
        """It works, or not, or that is not certain."""
        self.alive, self.version = alive, self.version + 1


class People:
    """All users but root."""

    def __init__(self, oracle: Oracle, chance: random.Random) -> None:
        self.known = {name: Known() for name in NAMES}
        self.tokens: dict[str, Token] = {}  # by their text
        self._oracle = oracle
        self._chance = chance
        self._numbers = 0

    # what the admin does

    async def change(self, client: SimulatedClient) -> None:
        """Make a user, or change one, or delete it."""
        name = self._chance.choice(NAMES)
        known = self.known[name]
        self._numbers += 1
        if len(known.possible) > 1:
            await client.call(access.get_users())
            return
        account = known.only()
        if account is None:
            await self.make(client, name)
            return
        call, after = self._wish(name, account)
        if after is not None:
            known.passwords.add(after.password)
        await self._do(client, known, call, after=after)
        self._oracle.count("users deleted" if after is None else "users changed")
        if self._chance.random() < 0.7:
            await self._bring_back(client, name)

    async def _bring_back(self, client: SimulatedClient, name: str) -> None:
        """Who was deleted is made again, who is inactive gets active: old sessions stay over."""
        known = self.known[name]
        account = known.only()
        if known.possible == {None}:
            await self.make(client, name)
        elif account is not None and not account.active:
            call = access.update_user(name, username=None, active=True)
            await self._do(client, known, call, after=replace(account, active=True))

    async def make(self, client: SimulatedClient, name: str) -> None:
        """A user who is not there."""
        self._numbers += 1
        known, password = self.known[name], f"secret-{self._numbers}"
        made = Account(self._numbers, self._numbers, password)
        call = access.create_user(name, password, active=True, permissions=made.permissions)
        known.passwords.add(password)
        await self._do(client, known, call, after=made)
        self._oracle.count("users made")

    def _wish(self, name: str, account: Account) -> tuple[Any, Account | None]:
        chance, number = self._chance, self._numbers
        (what,) = chance.choices(("delete", "status", "password", "permissions"), (3, 8, 1, 5))
        if what == "delete":
            return access.delete_user(name), None
        if what == "status" or not account.active:
            after = replace(account, active=not account.active)
            if account.active:
                after = replace(after, era=number)  # sessions end
            return access.update_user(name, username=None, active=after.active), after
        if what == "password":
            after = replace(account, password=f"secret-{number}")
            return access.change_password(name, account.password, after.password), after
        after = replace(account, sends=chance.random() < 0.6, polls=chance.random() < 0.6)
        return access.update_permissions(name, after.permissions), after

    async def _do(
        self, client: SimulatedClient, known: Known, call: Any, *, after: Account | None
    ) -> None:
        before = set(known.possible)
        known.set(before | {after})
        try:
            await client.call(call)
        except ClientError:
            known.set(before)
            raise
        except LOST:
            known.unsettled = True
            raise
        known.set({after})

    # what must hold

    def judge(self, name: str, version: int, verdict: Callable[[Account | None], str]) -> str:
        """What must come of a request that was sent at `version`; "" if that is not certain."""
        known = self.known[name]
        verdicts = {verdict(account) for account in known.possible}
        if known.unsettled or known.version != version or len(verdicts) > 1:
            return ""
        return verdicts.pop()

    def settled(self, name: str, found: UserDetails | None) -> None:
        """A user as it is after a restart."""
        known = self.known[name]
        possible = {one for one in known.possible if _fits(one, found)}
        if not possible:
            told = "is there" if found is not None else "is missing"
            raise ViolationError(f"user {name} {told}, known was {set(known.possible)}")
        known.unsettled = False
        known.set(possible)


def _fits(account: Account | None, found: UserDetails | None) -> bool:
    if account is None or found is None:
        return account is None and found is None
    active = found.user.status == access.ACTIVE
    return account.active == active and account.permissions == found.permissions
