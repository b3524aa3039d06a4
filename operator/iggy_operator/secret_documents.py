"""Kubernetes' Secrets in files: read as the API server would, and never shown."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

BYTES_MAX: Final = 1 << 20
"""Of all values of one Secret, as in Kubernetes."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# Kubernetes: a key becomes the name of a file.
_KEY: Final = re.compile(r"(?!\.\.?$)(?!\.\.)[-._a-zA-Z0-9]{1,253}")
_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"}
)

Told: TypeAlias = tuple[tuple[str | int, ...], str]
"""Path of a field, and what is wrong with it. Never with a value."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One Secret. `values` by key."""

    namespace: str
    name: str
    values: Mapping[str, bytes] = field(repr=False)


def is_secret(value: Mapping[str, Any]) -> bool:
    """Whether a document is one."""
    return value.get("apiVersion") == "v1" and value.get("kind") == "Secret"


def secret_problems(value: Mapping[str, Any]) -> Iterator[Told]:
    """What is wrong with it."""
    for name in sorted(set(value) - _FIELDS):
        yield (name,), f"unknown field, known: {', '.join(sorted(_FIELDS))}"
    metadata = value.get("metadata")
    for part, is_needed in (("name", True), ("namespace", False)):
        text = metadata.get(part) if isinstance(metadata, Mapping) else None
        if (is_needed or text is not None) and not _is_name(text):
            yield ("metadata", part), "must be a name of lower-case letters, digits and dashes"
    problems = [told for part in ("data", "stringData") for told in _part_problems(value, part)]
    yield from problems
    if not problems and sum(map(len, secret_values(value).values())) > BYTES_MAX:
        yield (), f"the values have more than {BYTES_MAX >> 20} MiB"


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _part_problems(value: Mapping[str, Any], part: str) -> Iterator[Told]:
    block = value.get(part)
    if block is not None and not isinstance(block, Mapping):
        yield (part,), "must be a mapping of keys to texts"
        return
    for key, text in (block or {}).items():
        if _KEY.fullmatch(key) is None:
            yield (part, key), "a key must have letters, digits, dashes, dots and underscores only"
        elif not isinstance(text, str):
            yield (part, key), "must be a text: put it in quotes"
        elif part == "data" and _decoded(text) is None:
            yield (part, key), "is not in base64: encode it, or write it into stringData"


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def secret_values(value: Mapping[str, Any]) -> dict[str, bytes]:
    """The values of one that is right. `stringData` wins over `data`, as in Kubernetes."""
    found = {key: _decoded(text) or b"" for key, text in (value.get("data") or {}).items()}
    return found | {key: text.encode() for key, text in (value.get("stringData") or {}).items()}
