"""Password hashes. Slow on purpose (about 20 ms and 19 MiB each): never call these on a loop.

argon2id with 19 MiB, 2 passes and 1 lane: the smallest setting that is commonly recommended, since
one broker serves many logins on few cores. Who keeps the loop free and bounds how many run at a
time is `net/login.py`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import secrets
from typing import Final

import argon2

MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
LANES: Final = 1

_TOKEN_BYTES: Final = 50  # 68 characters
_RANDOM_BYTES: Final = 24  # 32 characters

# A hash that no password fits, at the same cost: an unknown user takes as long as a known one.
NOBODY: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$"
    "aWdneWt1YmUtbm9ib2R5IQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)


@functools.cache
def _hasher() -> argon2.PasswordHasher:
    return argon2.PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)


def hash_password(password: str) -> str:
    """The text to store for a password; another one each time, since it is salted."""
    return _hasher().hash(password)


def verify(stored: str, password: str) -> bool:
    """Whether `stored` is a hash of `password`. A stored text that is no hash fits nothing."""
    try:
        return _hasher().verify(stored, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def new_token() -> str:
    """The text of a new personal access token (Iggy protocol 0.11: 50 random bytes in base64)."""
    return base64.b64encode(secrets.token_bytes(_TOKEN_BYTES)).decode()


def hash_token(token: str) -> str:
    """The text to store for a token. Fast: nobody guesses 50 random bytes.

    The original takes BLAKE3 here. Nobody outside ever sees it, so what Python brings does.
    """
    return hashlib.sha256(token.encode()).hexdigest()


def random_password() -> str:
    """A password that nobody chose, for the root user of a new broker."""
    return secrets.token_urlsafe(_RANDOM_BYTES)
