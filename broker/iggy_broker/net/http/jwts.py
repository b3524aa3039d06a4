"""The tokens of logins: JWTs that every shard makes and checks with the one secret of the broker.

Claims as in the HTTP API of Iggy 0.9, and one of ours: `uct`, when the user was made, since ids of
users are given again. Checked tokens are remembered, so that a request costs no cryptography.
"""

from __future__ import annotations

import secrets
import uuid
import warnings
from typing import TYPE_CHECKING, Any, Final

import jwt
import msgspec
from jwt.warnings import InsecureKeyLengthWarning

from iggy_broker.config_http import Jwt
from iggy_broker.config_values import UNLIMITED

if TYPE_CHECKING:
    from iggy_broker.clock import Clock
    from iggy_broker.metadata.model import User

TOKEN_CHARACTERS_MAX: Final = 8192  # as long as aiohttp lets a header be
NEVER_S: Final = 1_000_000_000  # how long `never_expire` is (as the original)
KNOWN_MAX: Final = 4096  # checked tokens remembered; then all are forgotten

# A short secret is the choice of who configures it, and is what the original takes too.
warnings.filterwarnings("ignore", category=InsecureKeyLengthWarning)

# What a text that is no token of ours may raise; the last one if its JSON is nested deeply.
UNREADABLE: Final = (jwt.PyJWTError, msgspec.ValidationError, UnicodeEncodeError, RecursionError)

# Times are ours to compare, by the broker's clock; issuer and audience are lists.
UNCHECKED: Final[Any] = dict.fromkeys(
    ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub",
     "verify_jti"), False,
)  # fmt: skip


class Claims(msgspec.Struct, frozen=True, gc=False):
    """What a token says. Times in unix seconds."""

    jti: str
    sub: str
    iss: str
    aud: str | list[str]
    exp: int
    nbf: int = 0
    uct: int | None = None  # when the user was made; of other issuers' tokens unknown

    @property
    def user_id(self) -> int | None:
        """The user; None: the text is no number."""
        return int(self.sub) if self.sub.isascii() and self.sub.isdecimal() else None


class Jwts:
    """Makes and checks tokens."""

    def __init__(self, settings: Jwt, secret: bytes, clock: Clock) -> None:
        """`secret` is the same in all shards."""
        self._settings = settings
        self._secret = secret
        self._clock = clock
        self._known: dict[str, Claims] = {}

    def issue(self, user: User) -> tuple[str, int]:
        """A new token, and when it ends in unix seconds."""
        now_s = self._now_s()
        settings = self._settings
        expiry_s = now_s + _lifetime_s(settings)
        claims = {
            "jti": str(_uuid7(now_s)),
            "iss": settings.issuer,
            "aud": settings.audience,
            "sub": str(user.id),
            "iat": now_s,
            "exp": expiry_s,
            "nbf": now_s + settings.not_before_us // 1_000_000,
            "uct": user.created_at_us,
        }
        headers = {"typ": "JWT"}
        token = jwt.encode(claims, self._secret, algorithm=settings.algorithm, headers=headers)
        return token, expiry_s

    def check(self, token: str) -> Claims | None:
        """What a token says, if it is one of ours and good now."""
        claims = self._known.get(token) or self._verify(token)
        if claims is None:
            return None
        skew_s = self._settings.clock_skew_us // 1_000_000
        now_s = self._now_s()
        return claims if claims.nbf - skew_s <= now_s <= claims.exp + skew_s else None

    def _verify(self, token: str) -> Claims | None:
        """Signature, algorithm, issuer and audience: all that stays as it is."""
        if len(token) > TOKEN_CHARACTERS_MAX:
            return None
        algorithms = [self._settings.algorithm]
        try:
            found: dict[str, Any] = jwt.decode(
                token, self._secret, algorithms=algorithms, options=UNCHECKED
            )
            claims = msgspec.convert(found, Claims)
        except UNREADABLE:
            return None
        settings = self._settings
        audiences = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        if claims.iss not in settings.valid_issuers:
            return None
        if audiences.isdisjoint(settings.valid_audiences):
            return None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[token] = claims
        return claims

    def _now_s(self) -> int:
        return self._clock.now_us() // 1_000_000


def _lifetime_s(settings: Jwt) -> int:
    if settings.access_token_expiry_us == UNLIMITED:
        return NEVER_S
    return settings.access_token_expiry_us // 1_000_000


def _uuid7(now_s: int) -> uuid.UUID:
    """A UUID of version 7 (RFC 9562): milliseconds since 1970, then random bits."""
    number = (now_s * 1000) << 80 | secrets.randbits(80)
    number &= ~(0xF000 << 64) & ~(0xC000 << 48)
    return uuid.UUID(int=number | (0x7000 << 64) | (0x8000 << 48))
