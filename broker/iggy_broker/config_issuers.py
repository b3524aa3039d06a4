"""Issuers whose tokens the HTTP interface takes: a list of tables in the file, or variables.

    [[http.jwt.trusted_issuers]]
    issuer = "https://login.example.com"
    audience = "iggy"
    jwks_url = "https://login.example.com/keys"
    user_id = 7

or `IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_ISSUER` and so on, or as one text: the list in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

NAME: Final = "http.jwt.trusted_issuers"
ISSUERS_MAX: Final = 256
TEXT_CHARACTERS_MAX: Final = 2048  # of one field

_VARIABLE: Final = re.compile(r"IGGY_HTTP_JWT_TRUSTED_ISSUERS_(\d{1,3})_([A-Z_]+)")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_FIX: Final = "write issuer, audience, jwks_url and user_id for each"


class TrustedIssuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whoever has a good token of this issuer for this audience acts as this user."""

    issuer: str
    audience: str
    jwks_url: str  # where its keys are: a JSON Web Key Set (RFC 7517)
    user_id: int

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if not 0 < self.user_id < 1 << 32:
            return f"user_id {self.user_id}: write the id of a user other than root"
        texts = (self.issuer, self.audience, self.jwks_url)
        if not all(0 < len(text) <= TEXT_CHARACTERS_MAX for text in texts):
            return f"write texts of 1 to {TEXT_CHARACTERS_MAX} characters"
        if not _is_safe(self.jwks_url):
            return f"jwks_url {self.jwks_url}: write https://..., or http:// to this machine"
        return ""


def trusted_issuers(value: object) -> tuple[TrustedIssuer, ...]:
    """Tables, or the text that `show_issuers` makes. ValueError says what to change."""
    try:
        given = msgspec.json.decode(value or "[]") if isinstance(value, str) else value
        found = msgspec.convert(given, tuple[TrustedIssuer, ...], strict=False)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{_FIX}: {error}") from None
    if len(found) > ISSUERS_MAX:
        raise ValueError(f"write at most {ISSUERS_MAX} issuers")
    for one in found:
        if problem := one.problem:
            raise ValueError(problem)
    if len({(one.issuer, one.audience) for one in found}) < len(found):
        raise ValueError("an issuer with one audience comes twice; keep one of them")
    return found


def show_issuers(issuers: Sequence[TrustedIssuer]) -> str:
    """Text that `trusted_issuers` reads back; empty if there are none."""
    return msgspec.json.encode(issuers).decode() if issuers else ""


def is_part(variable: str) -> bool:
    """Whether an environment variable is a field of one of these tables."""
    return _VARIABLE.fullmatch(variable) is not None


def tables_of(variables: Mapping[str, str]) -> list[dict[str, str]]:
    """The list that variables with an index make, in the order of the indexes."""
    tables: dict[int, dict[str, str]] = {}
    for variable, value in variables.items():
        if part := _VARIABLE.fullmatch(variable):
            tables.setdefault(int(part[1]), {})[part[2].lower()] = value
    return [tables[index] for index in sorted(tables)]


def _is_safe(url: str) -> bool:
    """Nobody on the way may give us keys of his own."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    )
