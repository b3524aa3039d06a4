"""Commands about users, tokens, connections and the server itself, as values. See `calls`."""

from collections.abc import Sequence
from typing import Final

from iggy_client.session import Call
from iggy_wire.permissions import Permissions
from iggy_wire.primitives import Identifier, IdentifierLike
from iggy_wire.replies import (
    AccessToken,
    AccessTokens,
    Archive,
    Catalog,
    ClientDetails,
    ClientInfo,
    Clients,
    NewToken,
    OptionDescription,
    User,
    UserDetails,
    Users,
)
from iggy_wire.requests import (
    ChangePassword,
    CreatePersonalAccessToken,
    CreateUser,
    DeletePersonalAccessToken,
    DeleteUser,
    DescribeOptions,
    GetClient,
    GetClients,
    GetPersonalAccessTokens,
    GetSnapshot,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)

ACTIVE: Final = 1
INACTIVE: Final = 2

SNAPSHOT_ALL: Final = (100,)
DEFLATED: Final = 2


def _nothing(payload: memoryview) -> None:
    """Success has nothing to say."""


def _status(active: bool) -> int:
    return ACTIVE if active else INACTIVE


def describe_options(scope: int) -> Call[tuple[OptionDescription, ...]]:
    """Which options there are: scope 1 topic, 2 stream, 3 user."""
    return Call(DescribeOptions(scope), lambda payload: Catalog.decode(payload).options)


def get_snapshot(types: Sequence[int], compression: int) -> Call[bytes]:
    """A ZIP archive with files for finding faults."""
    request = GetSnapshot(compression, tuple(types))
    return Call(request, lambda payload: Archive.decode(payload).data)


def get_client(client_id: int) -> Call[ClientDetails | None]:
    """One connection."""
    return Call(
        GetClient(client_id),
        lambda payload: ClientDetails.decode(payload) if len(payload) else None,
    )


def get_clients() -> Call[tuple[ClientInfo, ...]]:
    """All logged-in connections."""
    return Call(GetClients(), lambda payload: Clients.decode(payload).clients)


def get_user(user: IdentifierLike) -> Call[UserDetails | None]:
    """One user."""
    return Call(
        GetUser(Identifier.of(user)),
        lambda payload: UserDetails.decode(payload) if len(payload) else None,
    )


def get_users() -> Call[tuple[User, ...]]:
    """All users."""
    return Call(GetUsers(), lambda payload: Users.decode(payload).users)


def create_user(
    username: str, password: str, *, active: bool, permissions: Permissions | None
) -> Call[UserDetails]:
    """A new user."""
    request = CreateUser(username, password, _status(active), permissions)
    return Call(request, UserDetails.decode)


def update_user(user: IdentifierLike, *, username: str | None, active: bool | None) -> Call[None]:
    """Another name, another status."""
    status = None if active is None else _status(active)
    return Call(UpdateUser(Identifier.of(user), username, status), _nothing)


def delete_user(user: IdentifierLike) -> Call[None]:
    """Remove a user."""
    return Call(DeleteUser(Identifier.of(user)), _nothing)


def update_permissions(user: IdentifierLike, permissions: Permissions | None) -> Call[None]:
    """All permissions anew."""
    return Call(UpdatePermissions(Identifier.of(user), permissions), _nothing)


def change_password(user: IdentifierLike, current: str, new: str) -> Call[None]:
    """Another password."""
    return Call(ChangePassword(Identifier.of(user), current, new), _nothing)


def get_access_tokens() -> Call[tuple[AccessToken, ...]]:
    """The caller's tokens."""
    return Call(GetPersonalAccessTokens(), lambda payload: AccessTokens.decode(payload).tokens)


def create_access_token(name: str, expiry_us: int) -> Call[str]:
    """A new token."""
    request = CreatePersonalAccessToken(name, expiry_us)
    return Call(request, lambda payload: NewToken.decode(payload).token)


def delete_access_token(name: str) -> Call[None]:
    """A token less."""
    return Call(DeletePersonalAccessToken(name), _nothing)
