"""Which options P12 clients see and may change: those of topics, streams and users (protocol 0.12).

Names and the status of users are options there, of a kind: they are changed as such and stored in
fields of their own. What a topic's options mean is in `options`. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from iggy_broker.errors import Deny
from iggy_broker.metadata import options as topic_options
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options, ValueKind
from iggy_wire.requests_p12 import Scope


class Flag(IntFlag):
    """What a description says of an option, as bits."""

    UPDATABLE = 1
    RESETTABLE = 2
    SECRET = 4
    READ_ONLY = 8
    CRITICAL = 16


ENCRYPTION_KEY_BYTES: Final = 32

_READ_ONLY: Final = ErrorCode.READ_ONLY_OPTION
_FIXED: Final = ErrorCode.OPTION_NOT_UPDATABLE
_KEPT: Final = ErrorCode.OPTION_NOT_RESETTABLE
_NONE: Final = Flag(0)
_ANY_TIME: Final = Flag.UPDATABLE | Flag.RESETTABLE


@dataclass(frozen=True, slots=True)
class Described:
    """One option of a scope."""

    key: str
    kind: ValueKind
    flags: Flag
    doc: str


_CHANGEABLE: Final = frozenset({"message_expiry", "max_topic_size"})
_NAME: Final = Described("name", ValueKind.STRING, Flag.UPDATABLE, "The name.")

DESCRIBED: Final[Mapping[Scope, tuple[Described, ...]]] = {
    Scope.TOPIC: (
        _NAME,
        *(
            Described(one.key, one.kind, _ANY_TIME if one.key in _CHANGEABLE else _NONE, one.doc)
            for one in topic_options.P12_CATALOGUE
        ),
    ),
    Scope.STREAM: (
        _NAME,
        Described(
            "encryption_key_source",
            ValueKind.STRING,
            Flag.READ_ONLY,
            "Whose key the stream is encrypted with: none has one of its own.",
        ),
    ),
    Scope.USER: (
        Described("username", ValueKind.STRING, Flag.UPDATABLE, "The name, 3 to 50 bytes."),
        Described("status", ValueKind.STRING, Flag.UPDATABLE, "active or inactive."),
    ),
}
"""In the order in which they are told."""


# Known keys that nobody is told of here: refused for what they are, not as unknown.
_UNTOLD: Final[Mapping[Scope, Mapping[str, Flag]]] = {
    Scope.TOPIC: {"critical_keys": Flag.READ_ONLY, "replication_factor": _NONE},
    Scope.STREAM: {
        "critical_keys": Flag.READ_ONLY,
        "encryption_key": Flag.SECRET | Flag.CRITICAL,
        "encryption_key_wrapped": Flag.READ_ONLY,
        "encryption_key_fingerprint": Flag.READ_ONLY,
        "encryption_kek_fingerprint": Flag.READ_ONLY,
    },
    Scope.USER: {"critical_keys": Flag.READ_ONLY},
}


def check_keys(scope: Scope, resets: Iterable[str], options: Options) -> None:
    """Deny what may not be changed or reset, in this order of refusals.

    UNSUPPORTED_OPTION_KEY, READ_ONLY_OPTION, OPTION_NOT_UPDATABLE, OPTION_NOT_RESETTABLE.
    """
    described = {one.key: one.flags for one in DESCRIBED[scope]}
    known = {**described, **_UNTOLD[scope]}
    reset_keys = tuple(resets)
    keys = (*reset_keys, *(option.key for option in options))
    for key in keys:
        if key not in known:
            detail = f"option {key!r}: a {scope.name.lower()} has {', '.join(described)}"
            raise Deny(ErrorCode.UNSUPPORTED_OPTION_KEY, detail)
    flags = {key: known[key] for key in keys}
    for refused, code, why in (
        ([key for key in keys if flags[key] & Flag.READ_ONLY], _READ_ONLY, "is only read"),
        ([key for key in keys if not flags[key] & Flag.UPDATABLE], _FIXED, "is for creation only"),
        ([key for key in reset_keys if not flags[key] & Flag.RESETTABLE], _KEPT, "has no default"),
    ):
        if refused:
            raise Deny(code, f"option {refused[0]!r} {why}")


def refuse_key_of_its_own(options: Options) -> None:
    """Deny a new stream with a key: INVALID_ENCRYPTION_KEY, STREAM_ENCRYPTION_UNAVAILABLE."""
    given = next((option for option in options if option.key == "encryption_key"), None)
    if given is None:
        return
    try:
        key = (
            base64.b64decode(given.value, validate=True)
            if given.kind == ValueKind.STRING
            else given.value
        )
    except ValueError:
        key = b""
    if len(key) != ENCRYPTION_KEY_BYTES:
        detail = f"encryption_key: {ENCRYPTION_KEY_BYTES} bytes, or as many in base64"
        raise Deny(ErrorCode.INVALID_ENCRYPTION_KEY, detail)
    detail = "encryption_key: this server has no key to keep those of streams with"
    raise Deny(ErrorCode.STREAM_ENCRYPTION_UNAVAILABLE, detail)
