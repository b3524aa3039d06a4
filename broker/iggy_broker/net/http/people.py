"""Users, their permissions and tokens: JSON shapes and the binary ones."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from iggy_broker.metadata.model import ROOT_USER_ID
from iggy_broker.net.http import bodies
from iggy_wire import permissions, replies

ACTIVE, INACTIVE = "active", "inactive"
_CODES: Final = {ACTIVE: 1, INACTIVE: 2}
_EVERYTHING: Final = permissions.Permissions(permissions.GlobalPermissions(*[True] * 10))
_STREAM_FLAGS: Final = bodies.StreamFlags.__struct_fields__[:-1]  # but the topics
_WORDS: Final = {code: word for word, code in _CODES.items()}


class NoOptions(Struct, frozen=True):
    """Users have none yet."""


class User(Struct, frozen=True):
    """A user in a list."""

    id: int
    created_at: int
    status: str
    username: str
    options: NoOptions = NoOptions()


class UserDetails(Struct, frozen=True):
    """One user. Root's permissions are all there are."""

    id: int
    created_at: int
    status: str
    username: str
    permissions: bodies.Permissions | None
    options: NoOptions = NoOptions()


class Token(Struct, frozen=True):
    """A personal access token; `expiry_at` in µs since 1970, null: never."""

    name: str
    expiry_at: int | None


class NewToken(Struct, frozen=True):
    """The text of a token, which is shown only here."""

    token: str

    def __repr__(self) -> str:
        """Without the token."""
        return "NewToken()"


def status_code(word: str) -> int:
    """1 or 2; BadBody for another word."""
    code = _CODES.get(word)
    if code is None:
        raise bodies.wrong_shape(f"unknown variant `{word}`, expected `active` or `inactive`")
    return code


def user(one: replies.User) -> User:
    """A user in a list."""
    return User(one.id, one.created_at_us, _WORDS[one.status], one.name)


def details(one: replies.UserDetails) -> UserDetails:
    """One user."""
    head, granted = user(one.user), one.permissions
    if one.user.id == ROOT_USER_ID:
        granted = _EVERYTHING
    shown = None if granted is None else shown_permissions(granted)
    return UserDetails(head.id, head.created_at, head.status, head.username, shown)


def tokens(one: replies.AccessTokens) -> list[Token]:
    """Tokens by name."""
    return [Token(each.name, each.expires_at_us or None) for each in one.tokens]


def shown_permissions(granted: permissions.Permissions) -> bodies.Permissions:
    """Permissions as JSON; empty maps are null."""
    flags = bodies.GlobalFlags(*msgspec.structs.astuple(granted.everywhere))
    streams = {one.stream_id: _shown_stream(one) for one in granted.streams}
    return bodies.Permissions(flags, streams or None)


def stored_permissions(asked: bodies.Permissions | None) -> permissions.Permissions | None:
    """Permissions as they are stored."""
    if asked is None:
        return None
    everywhere = permissions.GlobalPermissions(*msgspec.structs.astuple(asked.everywhere))
    streams = (asked.streams or {}).items()
    return permissions.Permissions(
        everywhere, tuple(_stored_stream(number, one) for number, one in streams)
    )


def _shown_stream(one: permissions.StreamPermissions) -> bodies.StreamFlags:
    flags = {name: getattr(one, name) for name in _STREAM_FLAGS}
    shown = {
        each.topic_id: bodies.TopicFlags(*msgspec.structs.astuple(each)[1:]) for each in one.topics
    }
    return bodies.StreamFlags(**flags, topics=shown or None)


def _stored_stream(number: int, one: bodies.StreamFlags) -> permissions.StreamPermissions:
    flags = {name: getattr(one, name) for name in _STREAM_FLAGS}
    stored = tuple(
        permissions.TopicPermissions(topic_id, *msgspec.structs.astuple(each))
        for topic_id, each in (one.topics or {}).items()
    )
    return permissions.StreamPermissions(number, **flags, topics=stored)
