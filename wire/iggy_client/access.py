"""What both clients can do with users, tokens and connections: the methods of `access_calls`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from iggy_client import access_calls
from iggy_client.session import Call
from iggy_wire.permissions import Permissions
from iggy_wire.primitives import IdentifierLike
from iggy_wire.replies import (
    AccessToken,
    ClientDetails,
    ClientInfo,
    OptionDescription,
    User,
    UserDetails,
)

T = TypeVar("T")


class AccessMethods:
    """For the blocking client."""

    __slots__ = ()

    @abstractmethod
    def call(self, call: Call[T]) -> T:
        """Make a call."""

    def describe_options(self, scope: int) -> tuple[OptionDescription, ...]:
        """Which options there are: scope 1 topic, 2 stream, 3 user."""
        return self.call(access_calls.describe_options(scope))

    def get_snapshot(
        self,
        types: Sequence[int] = access_calls.SNAPSHOT_ALL,
        compression: int = access_calls.DEFLATED,
    ) -> bytes:
        """A ZIP archive with files for finding faults; numbers as in `GetSnapshot`."""
        return self.call(access_calls.get_snapshot(types, compression))

    def get_client(self, client_id: int) -> ClientDetails | None:
        """One connection, by the server's number for it; None if there is none."""
        return self.call(access_calls.get_client(client_id))

    def get_clients(self) -> tuple[ClientInfo, ...]:
        """All logged-in connections."""
        return self.call(access_calls.get_clients())

    def get_user(self, user: IdentifierLike) -> UserDetails | None:
        """One user; None if there is none."""
        return self.call(access_calls.get_user(user))

    def get_users(self) -> tuple[User, ...]:
        """All users."""
        return self.call(access_calls.get_users())

    def create_user(
        self,
        username: str,
        password: str,
        *,
        active: bool = True,
        permissions: Permissions | None = None,
    ) -> UserDetails:
        """A new user: name of 3 to 50 bytes, password of 3 to 100."""
        return self.call(
            access_calls.create_user(username, password, active=active, permissions=permissions)
        )

    def update_user(
        self, user: IdentifierLike, *, username: str | None = None, active: bool | None = None
    ) -> None:
        """Another name, another status; what is None stays. Inactive users cannot log in."""
        self.call(access_calls.update_user(user, username=username, active=active))

    def delete_user(self, user: IdentifierLike) -> None:
        """Remove a user with all tokens."""
        self.call(access_calls.delete_user(user))

    def update_permissions(self, user: IdentifierLike, permissions: Permissions | None) -> None:
        """All permissions anew; None takes them away."""
        self.call(access_calls.update_permissions(user, permissions))

    def change_password(self, user: IdentifierLike, current: str, new: str) -> None:
        """Another password; `current` must be right, whoever asks."""
        self.call(access_calls.change_password(user, current, new))

    def get_access_tokens(self) -> tuple[AccessToken, ...]:
        """The caller's tokens, without their secrets."""
        return self.call(access_calls.get_access_tokens())

    def create_access_token(self, name: str, expiry_us: int = 0) -> str:
        """A new token for the caller: the text to log in with. Expiry 0: never."""
        return self.call(access_calls.create_access_token(name, expiry_us))

    def delete_access_token(self, name: str) -> None:
        """Remove a token of the caller."""
        self.call(access_calls.delete_access_token(name))


class AsyncAccessMethods:
    """For the client of asyncio."""

    __slots__ = ()

    @abstractmethod
    async def call(self, call: Call[T]) -> T:
        """Make a call."""

    async def describe_options(self, scope: int) -> tuple[OptionDescription, ...]:
        """Which options there are: scope 1 topic, 2 stream, 3 user."""
        return await self.call(access_calls.describe_options(scope))

    async def get_snapshot(
        self,
        types: Sequence[int] = access_calls.SNAPSHOT_ALL,
        compression: int = access_calls.DEFLATED,
    ) -> bytes:
        """A ZIP archive with files for finding faults; numbers as in `GetSnapshot`."""
        return await self.call(access_calls.get_snapshot(types, compression))

    async def get_client(self, client_id: int) -> ClientDetails | None:
        """One connection, by the server's number for it; None if there is none."""
        return await self.call(access_calls.get_client(client_id))

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        """All logged-in connections."""
        return await self.call(access_calls.get_clients())

    async def get_user(self, user: IdentifierLike) -> UserDetails | None:
        """One user; None if there is none."""
        return await self.call(access_calls.get_user(user))

    async def get_users(self) -> tuple[User, ...]:
        """All users."""
        return await self.call(access_calls.get_users())

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        active: bool = True,
        permissions: Permissions | None = None,
    ) -> UserDetails:
        """A new user: name of 3 to 50 bytes, password of 3 to 100."""
        return await self.call(
            access_calls.create_user(username, password, active=active, permissions=permissions)
        )

    async def update_user(
        self, user: IdentifierLike, *, username: str | None = None, active: bool | None = None
    ) -> None:
        """Another name, another status; what is None stays. Inactive users cannot log in."""
        await self.call(access_calls.update_user(user, username=username, active=active))

    async def delete_user(self, user: IdentifierLike) -> None:
        """Remove a user with all tokens."""
        await self.call(access_calls.delete_user(user))

    async def update_permissions(
        self, user: IdentifierLike, permissions: Permissions | None
    ) -> None:
        """All permissions anew; None takes them away."""
        await self.call(access_calls.update_permissions(user, permissions))

    async def change_password(self, user: IdentifierLike, current: str, new: str) -> None:
        """Another password; `current` must be right, whoever asks."""
        await self.call(access_calls.change_password(user, current, new))

    async def get_access_tokens(self) -> tuple[AccessToken, ...]:
        """The caller's tokens, without their secrets."""
        return await self.call(access_calls.get_access_tokens())

    async def create_access_token(self, name: str, expiry_us: int = 0) -> str:
        """A new token for the caller: the text to log in with. Expiry 0: never."""
        return await self.call(access_calls.create_access_token(name, expiry_us))

    async def delete_access_token(self, name: str) -> None:
        """Remove a token of the caller."""
        await self.call(access_calls.delete_access_token(name))
