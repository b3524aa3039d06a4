"""Changes of users and of their tokens. Secrets arrive here as hashes only.

As in `changes`: the bytes are a storage format, so tags and field names stay.
"""

from __future__ import annotations

from iggy_broker.metadata.change_base import Change
from iggy_broker.metadata.model import Reference


class CreateUser(Change, frozen=True, tag="create_user"):
    """Make a user with the lowest free id. Name, password and permissions were checked before."""

    name: str
    password_hash: str
    active: bool = True
    permissions: bytes = b""  # as on the wire; empty: none


class UpdateUser(Change, frozen=True, tag="update_user"):
    """Another name, another status; what is None stays."""

    user: Reference
    name: str | None = None
    active: bool | None = None


class DeleteUser(Change, frozen=True, tag="delete_user"):
    """Drop a user with all tokens."""

    user: Reference


class SetPermissions(Change, frozen=True, tag="set_permissions"):
    """All permissions of a user anew."""

    user: Reference
    permissions: bytes = b""  # as on the wire; empty: none


class SetPassword(Change, frozen=True, tag="set_password"):
    """Another password, if the one that was verified is still the current one."""

    user: Reference
    password_hash: str
    verified_hash: str  # of the current password, as it was when the caller proved to know it


class CreateToken(Change, frozen=True, tag="create_token"):
    """Make a token for the user who asks."""

    name: str
    token_hash: str
    lifetime_us: int = 0  # 0: it never expires
    tokens_max: int = 100  # the limit when it was asked for: a journal must replay under any


class DeleteToken(Change, frozen=True, tag="delete_token"):
    """Drop a token of the user who asks."""

    name: str


class DropExpiredTokens(Change, frozen=True, tag="drop_expired_tokens"):
    """Drop every token whose time is over when this is logged."""
