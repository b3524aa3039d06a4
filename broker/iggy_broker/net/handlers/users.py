"""Users, their passwords and permissions."""

from __future__ import annotations

import logging
from typing import Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.logs import event
from iggy_broker.metadata import access, user_changes
from iggy_broker.metadata import options as topic_options
from iggy_broker.metadata.changes import Result
from iggy_broker.metadata.model import User
from iggy_broker.net.context import Answer, Context, Row
from iggy_broker.net.passwords import PASSWORD_BYTES, USERNAME_BYTES
from iggy_wire import replies, requests
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import Permissions

logger = logging.getLogger(__name__)

UserChange = (
    user_changes.CreateUser
    | user_changes.UpdateUser
    | user_changes.DeleteUser
    | user_changes.SetPermissions
    | user_changes.SetPassword
)

ACTIVE: Final = 1
INACTIVE: Final = 2


async def get_users(context: Context, request: requests.GetUsers) -> Answer:
    """All users, ascending by id."""
    del request
    users = context.services.replica.state.users
    return Answer(
        context.dialect.encode(
            replies.Users(tuple(_user(users[number]) for number in sorted(users)))
        )
    )


async def get_user(context: Context, request: requests.GetUser) -> Answer:
    """One user; an empty body if there is none."""
    user = context.services.replica.state.find_user(request.user.value)
    return Answer() if user is None else Answer(_details(context, user))


async def create_user(context: Context, request: requests.CreateUser) -> Answer:
    """Make a user; the reply describes it."""
    topic_options.refuse_any(request.options, "user")
    _check_name(request.username)
    _check_password(request.password)
    change = user_changes.CreateUser(
        request.username,
        await context.services.passwords.hash(request.password),
        _is_active(request.status),
        _stored(request.permissions),
    )
    result = await _submit(context, change)
    assert result.user is not None, "a created user comes with its result"
    return Answer(_details(context, result.user), op=result.op, timestamp_us=result.at_us)


async def update_user(context: Context, request: requests.UpdateUser) -> Answer:
    """Another name, another status, both, or neither."""
    topic_options.refuse_any(request.options, "user")
    if request.username is not None:
        _check_name(request.username)
    active = None if request.status is None else _is_active(request.status)
    change = user_changes.UpdateUser(request.user.value, request.username, active)
    return await _change(context, change)


async def delete_user(context: Context, request: requests.DeleteUser) -> Answer:
    """Delete a user with all tokens; the sessions end at once."""
    return await _change(context, user_changes.DeleteUser(request.user.value))


async def update_permissions(context: Context, request: requests.UpdatePermissions) -> Answer:
    """All permissions anew; they count from the next request on."""
    permissions = _stored(request.permissions)
    return await _change(context, user_changes.SetPermissions(request.user.value, permissions))


async def change_password(context: Context, request: requests.ChangePassword) -> Answer:
    """Another password, for whoever knows the current one; administrators must know it too."""
    passwords = context.services.passwords
    user = context.services.replica.state.find_user(request.user.value)
    if user is None:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, f"user {request.user}")
    _check_password(request.new_password)
    if not await passwords.fits(user, request.current_password):
        detail = f"this is not the current password of user {user.name!r}"
        raise Reject(ErrorCode.INVALID_CREDENTIALS, detail)
    password_hash = await passwords.hash(request.new_password)
    change = user_changes.SetPassword(user.id, password_hash, verified_hash=user.password_hash)
    return await _change(context, change)


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_USERS: Row(get_users, requests.GetUsers),
    Command.GET_USER: Row(get_user, requests.GetUser),
    Command.CREATE_USER: Row(create_user, requests.CreateUser),
    Command.UPDATE_USER: Row(update_user, requests.UpdateUser),
    Command.DELETE_USER: Row(delete_user, requests.DeleteUser),
    Command.UPDATE_PERMISSIONS: Row(update_permissions, requests.UpdatePermissions),
    Command.CHANGE_PASSWORD: Row(change_password, requests.ChangePassword),
}


_TOLD: Final[dict[type, str]] = {
    user_changes.CreateUser: "user created",
    user_changes.UpdateUser: "user updated",
    user_changes.DeleteUser: "user deleted",
    user_changes.SetPermissions: "permissions changed",
    user_changes.SetPassword: "password changed",
}


def _check_name(name: str) -> None:
    length = len(name.encode())
    if length not in USERNAME_BYTES:
        detail = f"a user name has 3 to 50 bytes, this one has {length}"
        raise Reject(ErrorCode.INVALID_USERNAME, detail)


def _check_password(password: str) -> None:
    length = len(password.encode())
    if length not in PASSWORD_BYTES:
        detail = f"a password has 3 to 100 bytes, this one has {length}"
        raise Reject(ErrorCode.INVALID_PASSWORD, detail)


def _is_active(status: int) -> bool:
    # The original keeps other numbers and treats them as active.
    if status not in (ACTIVE, INACTIVE):
        detail = f"status {status}: must be 1 (active) or 2 (inactive)"
        raise Reject(ErrorCode.INVALID_USER_STATUS, detail)
    return status == ACTIVE


def _stored(permissions: Permissions | None) -> bytes:
    if permissions is None:
        return b""
    stored = access.in_order(permissions).encode()
    if len(stored) > access.PERMISSIONS_BYTES_MAX:
        detail = f"permissions: at most {access.PERMISSIONS_BYTES_MAX} bytes, these have"
        raise Deny(ErrorCode.INVALID_SIZE_BYTES, f"{detail} {len(stored)}: use global flags")
    return stored


async def _submit(context: Context, change: UserChange) -> Result:
    result = await context.services.replica.submit(change, caller=context.caller)
    whom = change.name if isinstance(change, user_changes.CreateUser) else change.user
    told = event("user_changed", client=context.session.client_number, user=context.user_id)
    logger.info("= %s: %s", _TOLD[type(change)], whom, extra=told)
    return result


async def _change(context: Context, change: UserChange) -> Answer:
    result = await _submit(context, change)
    return Answer(op=result.op, timestamp_us=result.at_us)


def _user(user: User) -> replies.User:
    return replies.User(
        id=user.id,
        created_at_us=user.created_at_us,
        status=ACTIVE if user.active else INACTIVE,
        name=user.name,
    )


def _details(context: Context, user: User) -> bytes:
    permissions = access.decoded(user.permissions) if user.permissions else None
    return context.dialect.encode(replies.UserDetails(_user(user), permissions))
