"""Users, logins and personal access tokens over HTTP."""

from __future__ import annotations

from typing import Final

from iggy_broker.errors import Reject
from iggy_broker.net.http import bodies, people, shapes
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.replies import NO_CONTENT, Reply, json_reply
from iggy_broker.net.http.routes_streams import checked_name, given_options
from iggy_broker.net.http.routing import Route, Success
from iggy_wire import replies, requests
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Option
from iggy_wire.primitives import Identifier

_ME: Final = "me"
_TOKEN_NAME_BYTES: Final = range(3, 31)


async def log_in(call: Call) -> Reply:
    """By name and password."""
    body: bodies.Login = call.body
    return json_reply(await call.app.auth.log_in(body.username, body.password, call.address))


async def log_in_with_token(call: Call) -> Reply:
    """By personal access token."""
    return json_reply(call.app.auth.log_in_with_token(call.body.token, call.address))


async def refresh(call: Call) -> Reply:
    """A new token for a good one."""
    return json_reply(await call.app.auth.refresh(call.body.token))


async def log_out(call: Call) -> Reply:
    """The token that this is asked with is good no more."""
    await call.app.auth.log_out(call.asker)
    return NO_CONTENT


async def get_users(call: Call) -> Reply:
    """All, ascending by id."""
    found = replies.Users.decode(await call.run(requests.GetUsers()))
    return json_reply([people.user(one) for one in found.users])


async def create_user(call: Call) -> Reply:
    """The new one."""
    body: bodies.CreateUser = call.body
    request = requests.CreateUser(
        body.username,
        body.password,
        people.status_code(body.status),
        people.stored_permissions(body.permissions),
        () if call.is_strict else given_options(body.options),
    )
    found = replies.UserDetails.decode(await call.run(request))
    return json_reply(people.details(found))


async def get_user(call: Call) -> Reply:
    """One; `me` is who asks."""
    user = call.reference(0, "user")
    if user.value == _ME:
        user = Identifier(call.asker.user_id)
    found = await call.find(requests.GetUser(user), replies.UserDetails)
    return json_reply(people.details(found))


async def update_user(call: Call) -> Reply:
    """Name, status, both or neither."""
    body: bodies.UpdateUser = call.body
    status = None if body.status is None else people.status_code(body.status)
    given = tuple(Option.of(key, value) for key, value in (body.options or {}).items())
    request = requests.UpdateUser(call.reference(0, "user"), body.username, status, given)
    await call.run(request)
    return NO_CONTENT


async def delete_user(call: Call) -> Reply:
    """With all tokens."""
    await call.run(requests.DeleteUser(call.reference(0, "user")))
    return NO_CONTENT


async def change_password(call: Call) -> Reply:
    """For who knows the current one."""
    body: bodies.ChangePassword = call.body
    user = call.reference(0, "user")
    await call.run(requests.ChangePassword(user, body.current_password, body.new_password))
    return NO_CONTENT


async def update_permissions(call: Call) -> Reply:
    """All anew."""
    granted = people.stored_permissions(call.body.permissions)
    await call.run(requests.UpdatePermissions(call.reference(0, "user"), granted))
    return NO_CONTENT


async def get_tokens(call: Call) -> Reply:
    """The asker's, by name."""
    body = await call.run(requests.GetPersonalAccessTokens())
    return json_reply(people.tokens(replies.AccessTokens.decode(body)))


async def create_token(call: Call) -> Reply:
    """The text of a new one."""
    body: bodies.CreateToken = call.body
    name, length = body.name, len(body.name.encode())
    if length not in _TOKEN_NAME_BYTES:
        detail = f"a name has 3 to 30 bytes, this one has {length}"
        raise Reject(ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_NAME, detail)
    found = await call.run(requests.CreatePersonalAccessToken(name, body.expiry))
    return json_reply(people.NewToken(replies.NewToken.decode(found).token))


async def delete_token(call: Call) -> Reply:
    """One of the asker's."""
    name = checked_name(call.values[0], ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_NAME)
    await call.run(requests.DeletePersonalAccessToken(name))
    return NO_CONTENT


_IDENTITY: Final = Success(200, shapes.Identity)
_DONE: Final = Success(204)
_USER: Final = "/users/{user_id}"
_TOKENS: Final = "/personal-access-tokens"

ROUTES: Final = (
    Route("POST", "/users/login", log_in, "Log in by password.", _IDENTITY, bodies.Login,
          is_public=True),
    Route("POST", "/users/refresh-token", refresh, "Another token for a good one.", _IDENTITY,
          bodies.TokenText, is_public=True),
    Route("DELETE", "/users/logout", log_out, "End the token that this is asked with.", _DONE),
    Route("GET", "/users", get_users, "All users.", Success(200, list[people.User])),
    Route("POST", "/users", create_user, "Create a user.", Success(200, people.UserDetails),
          bodies.CreateUser),
    Route("GET", _USER, get_user, "One user; `me` is who asks.", Success(200, people.UserDetails)),
    Route("PUT", _USER, update_user, "Another name or status.", _DONE, bodies.UpdateUser),
    Route("DELETE", _USER, delete_user, "Delete a user.", _DONE),
    Route("PUT", _USER + "/password", change_password, "Change a password.", _DONE,
          bodies.ChangePassword),
    Route("PUT", _USER + "/permissions", update_permissions, "All permissions anew.", _DONE,
          bodies.UpdatePermissions),
    Route("POST", _TOKENS + "/login", log_in_with_token, "Log in by personal access token.",
          _IDENTITY, bodies.TokenText, is_public=True),
    Route("GET", _TOKENS, get_tokens, "The asker's personal access tokens.",
          Success(200, list[people.Token])),
    Route("POST", _TOKENS, create_token, "Create a personal access token.",
          Success(200, people.NewToken), bodies.CreateToken),
    Route("DELETE", _TOKENS + "/{name}", delete_token, "Delete a personal access token.", _DONE),
)  # fmt: skip
