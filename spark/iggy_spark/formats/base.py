"""What the formats have in common."""

from __future__ import annotations

from typing import Any, Protocol

from iggy_spark import schema

SCHEMA_BYTES_MAX = 1 << 20  # of a schema or descriptor set


class Unreadable(Exception):
    """A payload that is not what was declared: the kind of fault, and the reason."""

    def __init__(self, kind: str, message: str) -> None:
        """`kind` is a word such as MalformedJson."""
        super().__init__(message)
        self.kind = kind


class Format(Protocol):
    """A schema, ready for use."""

    @property
    def fields(self) -> tuple[schema.Field, ...]:
        """The columns that it gives."""

    def read(self, payload: bytes | memoryview) -> dict[str, Any]:
        """A payload as an object with values of the columns' Python types.

        Raises:
            Unreadable: it is none.
        """

    def write(self, document: dict[str, Any]) -> bytes:
        """A JSON document as a payload.

        Raises:
            Unreadable: it does not fit the schema.
        """
