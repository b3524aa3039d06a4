"""Bodies of replies about personal access tokens."""

from typing import Self

import msgspec

from iggy_wire.cursor import Reader, name_bytes, text8_bytes, u64_bytes
from iggy_wire.reply_base import Reply


class AccessToken(msgspec.Struct, frozen=True, gc=False):
    """A token without its secret. `expires_at_us` counts from the Unix epoch; 0: never."""

    name: str
    expires_at_us: int = 0


class AccessTokens(Reply, frozen=True, gc=False):
    """The tokens of one user."""

    tokens: tuple[AccessToken, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(
            name_bytes(token.name, "token name") + u64_bytes(token.expires_at_us, "token expiry")
            for token in self.tokens
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        tokens = []
        while reader.remaining:
            tokens.append(AccessToken(reader.name("token name"), reader.u64("token expiry")))
        return cls(tuple(tokens))


class NewToken(Reply, frozen=True, gc=False):
    """The text to log in with, which the server shows only once."""

    token: str

    def __repr__(self) -> str:
        """Without the token: values end up in logs."""
        return "NewToken()"

    def encode(self) -> bytes:
        """Text behind a one-byte length."""
        return text8_bytes(self.token, "token")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.text8("token"))


class Archive(Reply, frozen=True, gc=False):
    """The bytes of a ZIP file, as they are."""

    data: bytes = b""

    def encode(self) -> bytes:
        """The file."""
        return self.data

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(bytes(reader.rest()))
