"""The access tokens of a user: one Secret each, renewed before they expire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from iggy_client import ClientError, LinkError, access_calls
from iggy_client.session import Call
from iggy_operator import API_GROUP, units
from iggy_operator.backoff import PAUSE_S_MIN
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import (
    BrokerAdmin,
    BrokerDownError,
    BrokerRefusedError,
    Connection,
)
from iggy_operator.cache import Entry
from iggy_operator.cluster import Object
from iggy_operator.decide.users import is_token_due
from iggy_operator.desired.metadata import owner_of
from iggy_operator.desired.secrets import SecretShape, token_secret
from iggy_operator.kinds import user_secrets
from iggy_operator.kinds.common import World
from iggy_operator.objects import status_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import User
from iggy_operator.units import time_text
from iggy_wire import replies

EXPIRES: Final = f"{API_GROUP}/expires-at"
OF_USER: Final = f"{API_GROUP}/of-user"
"""On a token's Secret: which incarnation of the user it belongs to."""
_US: Final = 1_000_000

T = TypeVar("T")


@dataclass(slots=True)
class _Token:
    """One token that is wanted, or was."""

    name: str
    shape: SecretShape
    secret: Object | None
    expiry: str | None
    """As in the spec; None: not wanted any more."""

    @property
    def lifetime_s(self) -> float | None:
        """None: it never expires."""
        assert self.expiry is not None, "wanted"
        return None if self.expiry == "never" else units.duration_us(self.expiry) / _US

    def noted(self, name: str) -> str:
        """An annotation of its Secret."""
        metadata = (self.secret or {"metadata": {}})["metadata"]
        return str(metadata.get("annotations", {}).get(name, ""))


async def renew(
    world: World, entry: Entry, admin: BrokerAdmin, user: replies.User, password: str
) -> tuple[Mapping[str, Any], ...]:
    """Make what is due, drop what is not wanted any more; rows for the status."""
    resource = entry.resource
    assert isinstance(resource, User)
    tokens = [await _look(world, entry, name, expiry) for name, expiry in _names(entry)]
    of_user, now_s = f"{user.id}-{user.created_at_us}", world.clock.now_s()
    due = [token for token in tokens if not _is_good(token, of_user, now_s)]
    if due and resource.is_active:  # who is locked out can make none
        visitor = await admin.visit(user.name, password)
        if visitor is None:
            text = f"the broker does not let user {user.name} in with the password of the Secret"
            raise Blocked(Reason.SECRET_INVALID, text)
        try:
            for token in due:
                await _exchange(world, visitor, token, of_user)
        finally:
            await visitor.close()
    return tuple(_row(token) for token in tokens if token.expiry is not None)


def _names(entry: Entry) -> list[tuple[str, str | None]]:
    """Tokens that are wanted, then those that were."""
    assert isinstance(entry.resource, User)
    wanted = {item["name"]: item["expiry"] for item in entry.resource.spec.get("accessTokens", ())}
    before = [item["name"] for item in status_of(entry.value).get("accessTokens", ())]
    return [*wanted.items(), *((name, None) for name in before if name not in wanted)]


async def _look(world: World, entry: Entry, name: str, expiry: str | None) -> _Token:
    assert isinstance(entry.resource, User)
    shape = token_secret(entry.resource, name, owner_of(entry.value))
    return _Token(name, shape, await user_secrets.own_secret(world, entry, shape), expiry)


def _is_good(token: _Token, of_user: str, now_s: float) -> bool:
    if token.expiry is None or token.secret is None or token.noted(OF_USER) != of_user:
        return False
    if user_secrets.value_of(token.secret, "token") is None:
        return False
    return not is_token_due(token.noted(EXPIRES), token.lifetime_s, now_s=now_s)


async def _exchange(world: World, visitor: Connection, token: _Token, of_user: str) -> None:
    """The old one goes, in its place comes a new one. Its text is told once, so the Secret is
    written last: after a crash in between there is none that fits, and all is done again.
    """
    names = [item.name for item in await _as_user(visitor, access_calls.get_access_tokens())]
    if token.name in names:
        await _as_user(visitor, access_calls.delete_access_token(token.name))
    if token.expiry is None:
        if token.secret is not None:
            await user_secrets.remove(world, token.secret)
        return
    lifetime_s = token.lifetime_s
    expiry_us = 0 if lifetime_s is None else int(lifetime_s * _US)
    text = await _as_user(visitor, access_calls.create_access_token(token.name, expiry_us))
    expires = "" if lifetime_s is None else time_text(world.clock.now_s() + lifetime_s)
    marks = {OF_USER: of_user, **({EXPIRES: expires} if expires else {})}
    token.secret = await user_secrets.write(
        world, token.shape, {"token": text}, old=token.secret, annotations=marks
    )


async def _as_user(visitor: Connection, call: Call[T]) -> T:
    try:
        return await visitor.call(call)
    except LinkError as error:
        raise BrokerDownError(str(error), retry_in_s=PAUSE_S_MIN, down_for_s=0) from error
    except ClientError as error:
        raise BrokerRefusedError(error.code, str(error)) from error


def _row(token: _Token) -> dict[str, str]:
    row = {"name": token.name, "secretName": token.shape.name}
    if expires := token.noted(EXPIRES):
        row["expiresAt"] = expires
    return row
