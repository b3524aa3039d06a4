"""What changes of users and tokens do. Pure, like everything in `apply`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import model, user_changes
from iggy_broker.metadata.applied import Applied, done, replace, with_item, without_item
from iggy_broker.metadata.changes import Entry, Result
from iggy_broker.metadata.model import ROOT_USER_ID, Reference, State, Token, User
from iggy_wire.errors import ErrorCode


def _create_user(state: State, entry: Entry, change: user_changes.CreateUser) -> Applied:
    if change.name in state.user_names:
        raise Reject(ErrorCode.USER_ALREADY_EXISTS, f"user {change.name!r}")
    if len(state.users) >= model.USERS_MAX:
        raise Reject(ErrorCode.USERS_LIMIT_REACHED, f"limit {model.USERS_MAX}")
    user = User(
        id=next(number for number in count() if number not in state.users),
        name=change.name,
        password_hash=change.password_hash,
        created_at_us=entry.at_us,
        active=change.active,
        permissions=change.permissions,
    )
    names = with_item(state.user_names, user.name, user.id)
    changed = replace(_put(state, user), user_names=names)
    return Applied(changed, Result(entry.op, entry.at_us, user=user))


def _update_user(state: State, entry: Entry, change: user_changes.UpdateUser) -> Applied:
    user = _user(state, change.user)
    name = user.name if change.name is None else change.name
    active = user.active if change.active is None else change.active
    if state.user_names.get(name, user.id) != user.id:
        raise Reject(ErrorCode.USER_ALREADY_EXISTS, f"user {name!r}")
    if user.id == ROOT_USER_ID and not active:
        raise Reject(ErrorCode.INVALID_USER_STATUS, "root stays active: nobody could undo it")
    names = with_item(without_item(state.user_names, user.name), name, user.id)
    changed = _put(state, replace(user, name=name, active=active))
    return done(replace(changed, user_names=names), entry)


def _delete_user(state: State, entry: Entry, change: user_changes.DeleteUser) -> Applied:
    user = _user(state, change.user)
    if user.id == ROOT_USER_ID:
        raise Reject(ErrorCode.CANNOT_DELETE_USER, "root cannot be deleted")
    owners = {key: owner for key, owner in state.token_owners.items() if owner != user.id}
    changed = replace(
        state,
        users=without_item(state.users, user.id),
        user_names=without_item(state.user_names, user.name),
        token_owners=owners if user.tokens else state.token_owners,
    )
    return done(changed, entry)


def _set_permissions(state: State, entry: Entry, change: user_changes.SetPermissions) -> Applied:
    user = _user(state, change.user)
    if user.id == ROOT_USER_ID:
        raise Reject(ErrorCode.CANNOT_CHANGE_PERMISSIONS, "root may do everything")
    return done(_put(state, replace(user, permissions=change.permissions)), entry)


def _set_password(state: State, entry: Entry, change: user_changes.SetPassword) -> Applied:
    user = _user(state, change.user)
    if user.password_hash != change.verified_hash:
        detail = f"the password of user {user.name!r} was changed meanwhile"
        raise Reject(ErrorCode.INVALID_CREDENTIALS, detail)
    return done(_put(state, replace(user, password_hash=change.password_hash)), entry)


def _create_token(state: State, entry: Entry, change: user_changes.CreateToken) -> Applied:
    user = _caller(state, entry)
    if len(user.tokens) >= change.tokens_max:
        # Iggy protocol 0.11: this one refusal is a status word, and comes before the name's.
        detail = f"user {user.name!r} has {len(user.tokens)} tokens, the limit"
        raise Deny(ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED, detail)
    if change.name in user.tokens or change.token_hash in state.token_owners:
        raise Reject(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, f"token {change.name!r}")
    expires_at_us = entry.at_us + change.lifetime_us if change.lifetime_us else model.NEVER
    if expires_at_us > model.MOMENT_US_MAX:
        detail = f"token {change.name!r} would expire after the end of time; use 0 for never"
        raise Reject(ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY, detail)
    token = Token(change.name, change.token_hash, expires_at_us)
    changed = _put(state, replace(user, tokens=with_item(user.tokens, token.name, token)))
    owners = with_item(state.token_owners, token.token_hash, user.id)
    return done(replace(changed, token_owners=owners), entry)


def _delete_token(state: State, entry: Entry, change: user_changes.DeleteToken) -> Applied:
    user = _caller(state, entry)
    token = user.tokens.get(change.name)
    if token is None:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, f"token {change.name!r}")
    changed = _put(state, replace(user, tokens=without_item(user.tokens, token.name)))
    owners = without_item(state.token_owners, token.token_hash)
    return done(replace(changed, token_owners=owners), entry)


def _drop_expired(state: State, entry: Entry, change: user_changes.DropExpiredTokens) -> Applied:
    del change
    users, owners = dict(state.users), dict(state.token_owners)
    for user in state.users.values():
        kept = {
            name: token for name, token in user.tokens.items() if not token.is_over(entry.at_us)
        }
        if len(kept) < len(user.tokens):
            users[user.id] = replace(user, tokens=kept)
            for name in user.tokens.keys() - kept.keys():
                del owners[user.tokens[name].token_hash]
    return done(replace(state, users=users, token_owners=owners), entry)


APPLY_USERS: Final[Mapping[type, Callable[[State, Entry, Any], Applied]]] = {
    user_changes.CreateUser: _create_user,
    user_changes.UpdateUser: _update_user,
    user_changes.DeleteUser: _delete_user,
    user_changes.SetPermissions: _set_permissions,
    user_changes.SetPassword: _set_password,
    user_changes.CreateToken: _create_token,
    user_changes.DeleteToken: _delete_token,
    user_changes.DropExpiredTokens: _drop_expired,
}


def _put(state: State, user: User) -> State:
    return replace(state, users=with_item(state.users, user.id, user))


def _user(state: State, user: Reference) -> User:
    found = state.find_user(user)
    if found is None:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, f"user {user!r}")
    return found


def _caller(state: State, entry: Entry) -> User:
    user = state.users.get(entry.user_id)
    if user is None:
        raise Reject(ErrorCode.UNAUTHORIZED, f"user {entry.user_id} is no more")
    return user
