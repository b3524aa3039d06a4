"""Users, passwords, permissions and tokens of the fake broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from iggy_client import ClientError
from iggy_wire import replies, requests
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import Permissions


@dataclass
class Person:
    """One user."""

    user: replies.User
    password: str
    permissions: Permissions | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    """Text by name."""


def person(broker: Any, identifier: Any) -> Person:
    found = broker.people.get(identifier.value)
    if found is None:
        raise ClientError(ErrorCode.RESOURCE_NOT_FOUND, f"user {identifier.value}")
    assert isinstance(found, Person)
    return found


def check_password(password: str) -> None:
    if not 3 <= len(password.encode()) <= 100:
        raise ClientError(ErrorCode.INVALID_PASSWORD, "a password has 3 to 100 bytes")


def _get_user(broker: Any, request: requests.GetUser) -> replies.UserDetails | None:
    found = broker.people.get(request.user.value)
    return None if found is None else replies.UserDetails(found.user, found.permissions)


def _get_users(broker: Any, request: requests.GetUsers) -> replies.Users:
    root = replies.User(0, 1, 1, broker.username)
    return replies.Users((root, *(found.user for found in broker.people.values())))


def _create_user(broker: Any, request: requests.CreateUser) -> replies.UserDetails:
    check_password(request.password)
    if request.username in broker.people:
        raise ClientError(ErrorCode.USER_ALREADY_EXISTS, f"user {request.username}")
    number = broker.next_number()
    user = replies.User(number, number, request.status, request.username)
    broker.people[request.username] = Person(user, request.password, request.permissions)
    return replies.UserDetails(user, request.permissions)


def _update_user(broker: Any, request: requests.UpdateUser) -> None:
    found = person(broker, request.user)
    found.user = msgspec.structs.replace(found.user, status=request.status)


def _delete_user(broker: Any, request: requests.DeleteUser) -> None:
    del broker.people[person(broker, request.user).user.name]


def _update_permissions(broker: Any, request: requests.UpdatePermissions) -> None:
    person(broker, request.user).permissions = request.permissions


def _change_password(broker: Any, request: requests.ChangePassword) -> None:
    check_password(request.new_password)
    if request.user.value == broker.username:
        if broker.password != request.current_password:
            raise ClientError(ErrorCode.INVALID_CREDENTIALS, "this is not the current password")
        broker.change_root(request.new_password)
        return
    found = person(broker, request.user)
    if found.password != request.current_password:
        raise ClientError(ErrorCode.INVALID_CREDENTIALS, "this is not the current password")
    found.password = request.new_password


def _get_tokens(broker: Any, request: requests.GetPersonalAccessTokens) -> replies.AccessTokens:
    names = broker.people[broker.caller].tokens
    return replies.AccessTokens(tuple(replies.AccessToken(name) for name in names))


def _create_token(broker: Any, request: requests.CreatePersonalAccessToken) -> replies.NewToken:
    tokens = broker.people[broker.caller].tokens
    if request.name in tokens:
        raise ClientError(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, request.name)
    tokens[request.name] = f"token-{broker.next_number()}"
    return replies.NewToken(tokens[request.name])


def _delete_token(broker: Any, request: requests.DeletePersonalAccessToken) -> None:
    del broker.people[broker.caller].tokens[request.name]


HANDLERS: dict[type[Any], Callable[[Any, Any], Any]] = {
    requests.GetUser: _get_user,
    requests.GetUsers: _get_users,
    requests.CreateUser: _create_user,
    requests.UpdateUser: _update_user,
    requests.DeleteUser: _delete_user,
    requests.UpdatePermissions: _update_permissions,
    requests.ChangePassword: _change_password,
    requests.GetPersonalAccessTokens: _get_tokens,
    requests.CreatePersonalAccessToken: _create_token,
    requests.DeletePersonalAccessToken: _delete_token,
}
