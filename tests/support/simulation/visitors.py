"""Clients that are not root: they log in as users that come and go, by password or by token."""

from __future__ import annotations

import asyncio

from iggy_client import access_calls as access
from iggy_client import calls
from iggy_client.errors import ClientError
from iggy_client.session import login_request, token_request
from iggy_wire.errors import ErrorCode
from simulation.clients import SimulatedClient
from simulation.oracle import Oracle, ViolationError
from simulation.people import NAMES, Account, People, Token
from simulation.workload import LOST, Action, Worker

_OVER = (ErrorCode.UNAUTHENTICATED, ErrorCode.STALE_CLIENT)
TOKENS_MAX = 4  # of one visitor; then it deletes one


class Visitor(Worker):
    """A worker that may do what its user may, as long as there is such a user."""

    def __init__(
        self, client: SimulatedClient, oracle: Oracle, number: int, people: People
    ) -> None:
        super().__init__(client, oracle, number)
        self.people = people
        self._name = NAMES[0]
        self._account: Account | None = None  # whom the session belongs to, if that is certain

    def pick(self) -> Action:
        """What to do next."""
        (action,) = self.chance.choices(
            (self.send_something, self.read_something, self.ask, self.make_token, self.drop_token,
             self.go), (8, 8, 3, 3, 2, 3),
        )  # fmt: skip
        return action

    async def go(self) -> None:
        """Leave; the next operation logs in again."""
        self.client.disconnect()

    # logging in

    async def enter(self, shard: int) -> None:
        """Log in as somebody, with a password or a token that works or does not."""
        mine = [text for text, token in self.people.tokens.items() if token.alive is not None]
        if mine and self.chance.random() < 0.4:
            await self._enter_with_token(shard, self.chance.choice(mine))
        else:
            await self._enter_with_password(shard)

    async def _enter_with_password(self, shard: int) -> None:
        there = [name for name in NAMES if self.people.known[name].possible != {None}]
        name = self.chance.choice(there or NAMES if self.chance.random() < 0.8 else NAMES)
        known = self.people.known[name]
        version, account = known.version, known.only()
        password = "" if account is None else account.password
        if not password or self.chance.random() < 0.2:
            password = self.chance.choice([*sorted(known.passwords), "nobody's"])
        good = await self._log_in(shard, name, login_request(name, password))
        right = self.people.judge(
            name, version, lambda one: _told(one is not None and one.active, one, password)
        )
        self._judge_login(f"{name} by password", good, right)

    async def _enter_with_token(self, shard: int, text: str) -> None:
        token = self.people.tokens[text]
        version, of_token = self.people.known[token.user].version, token.version
        good = await self._log_in(shard, token.user, token_request(text))
        right = self.people.judge(
            token.user, version, lambda one: _told(_is_of(one, token), one, None)
        )
        if token.version != of_token or token.made is None:
            right = ""
        self._judge_login(f"{token.user} by token {token.name}", good, right)

    async def _log_in(self, shard: int, name: str, request: object) -> bool:
        known = self.people.known[name]
        version, account = known.version, known.only()
        self._account = None
        try:
            await self.client.connect(shard, request)  # type: ignore[arg-type]
        except ClientError as refusal:
            self.client.loop.schedule.note(self.client.name, f"login refused: {refusal}")
            self.client.disconnect()
            self.operations += 1
            await asyncio.sleep(self.chance.uniform(0.005, 0.03))
            return False
        self._name = name
        if known.version == version and not known.unsettled:
            self._account = account
        return True

    def _judge_login(self, whom: str, good: bool, right: str) -> None:
        self.oracle.count("logins of users" if good else "logins of users, refused")
        if right and (right == "good") is not good:
            told = "was let in" if good else "was not let in"
            raise ViolationError(f"login of {whom} {told}")

    # what a user does

    async def send_something(self) -> None:
        """Send a batch, if we may."""
        await self._judged("sends", self._send_one)

    async def read_something(self) -> None:
        """Poll, if we may."""
        await self._judged("polls", self.poll)

    async def ask(self) -> None:
        """What everybody may who is logged in."""
        await self._judged("", self._ask)

    async def _send_one(self) -> None:
        answers = await self._send([self.key])
        for answer in answers:
            if isinstance(answer, ClientError):
                raise answer

    async def _ask(self) -> None:
        await self.client.call(calls.get_me())

    async def make_token(self) -> None:
        """A token that does not expire."""
        tokens = [one for one in self.people.tokens.values() if one.alive]
        if len(tokens) >= TOKENS_MAX:
            await self.drop_token()
            return
        await self._judged("", self._make_token)

    async def _make_token(self) -> None:
        name = f"t{self.number}-{self.operations}"
        account, user = self._account, self._name
        text = await self.client.call(access.create_access_token(name, 0))
        self.people.tokens[text] = Token(name, user, None if account is None else account.made)
        self.oracle.count("tokens made")

    async def drop_token(self) -> None:
        """Delete a token of ours."""
        mine = None if self._account is None else (self._name, self._account.made)
        tokens = [one for one in self.people.tokens.values() if (one.user, one.made) == mine]
        tokens = [one for one in tokens if one.alive]
        if not tokens:
            await self.ask()
            return
        token = self.chance.choice(tokens)
        token.set(None)
        try:
            await self._judged("", lambda: self._drop_token(token))
        except ClientError:
            token.set(True)
            raise

    async def _drop_token(self, token: Token) -> None:
        await self.client.call(access.delete_access_token(token.name))
        token.set(False)
        self.oracle.count("tokens deleted")

    async def _judged(self, flag: str, action: Action) -> None:
        """Do it, and see whether it was to be served, denied, or the session to be over."""
        account, name = self._account, self._name
        version = self.people.known[name].version
        came, refusal = "served", None
        try:
            await action()
        except LOST:
            raise
        except ClientError as error:
            refusal = error
            came = "denied" if error.code == ErrorCode.UNAUTHORIZED else "served"
            came = "over" if error.code in _OVER else came
        if account is not None:
            era = account.era
            due = self.people.judge(name, version, lambda one: _due(one, era, flag))
            same = came == due or (due == "over" and came == "denied")
            if due and not same:
                raise ViolationError(f"user {name}, era {era}: {flag or 'asks'}: {came}, not {due}")
        self.oracle.count(f"requests of users, {came}")
        if came == "over":
            self.client.disconnect()
        if refusal is not None:
            raise refusal


def _told(good: bool, account: Account | None, password: str | None) -> str:
    fits = password is None or (account is not None and account.password == password)
    return "good" if good and fits else "bad"


def _is_of(account: Account | None, token: Token) -> bool:
    if account is None or not account.active or not token.alive:
        return False
    return account.made == token.made


def _due(account: Account | None, era: int, flag: str) -> str:
    if account is None or not account.active or account.era != era:
        return "over"
    return "served" if not flag or getattr(account, flag) else "denied"
