"""What clients of servers up to 0.6 lay out otherwise than those of 0.7 and 0.8.

The header of a message is 56 bytes, without the reserved 8 at its end. A pair of user headers has
no kind of its key, which is always text: `key length u32, key, value kind u8, value length u32,
value`. Seen with the Python clients 0.5 and 0.6.
"""

from __future__ import annotations

import re
from typing import Final

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader
from iggy_wire.errors import WireError
from iggy_wire.options import ValueKind

MESSAGE_HEADER_BYTES: Final = 56

_RUST_VERSION_BEFORE: Final = 9  # 0.9 came with server 0.7
_VERSION: Final = re.compile(r"0\.(\d{1,9})\.")
_KEY_KIND: Final = bytes((ValueKind.STRING,))


def is_v06(version: str, context: str) -> bool:
    """Whether a login comes from such a client, as far as it tells.

    The Python clients say the version of the Rust library below, and no context: 0.7.0 and 0.8.0
    are those of servers 0.5 and 0.6. The versions of others say something else.
    """
    found = _VERSION.match(version)
    return found is not None and not context and int(found[1]) < _RUST_VERSION_BEFORE


def with_key_kinds(headers: Buffer) -> bytes:
    """User headers as they are stored. WireError: they are malformed."""
    parts: list[bytes] = []
    reader = Reader(headers)
    while reader.remaining:
        parts += (_KEY_KIND, _sized(reader, "header key"), _value(reader))
    return b"".join(parts)


def without_key_kinds(headers: Buffer) -> bytes:
    """User headers as these clients know them: pairs with a key that is no text are left out.

    None at all if they are malformed: nobody looks into what newer clients send.
    """
    parts: list[bytes] = []
    reader = Reader(headers)
    try:
        while reader.remaining:
            is_text = reader.u8("header key kind") == ValueKind.STRING
            pair = _sized(reader, "header key") + _value(reader)
            if is_text:
                parts.append(pair)
    except WireError:
        return b""
    return b"".join(parts)


def _value(reader: Reader) -> bytes:
    return bytes((reader.u8("header value kind"),)) + _sized(reader, "header value")


def _sized(reader: Reader, field: str) -> bytes:
    """A length and as many bytes."""
    start = reader.at
    reader.take(reader.u32(field), field)
    return bytes(reader.data[start : reader.at])
