"""What transforms have in common: what they get, what they give, and how they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from iggy_spark.messages import Messages

# A JSON object: texts, numbers (int, float, or Decimal where a float would round), true, false,
# null, lists and objects. A step may change the one it gets.
Document: TypeAlias = dict[str, Any]


class At:
    """Which message a document came from, and how far it is."""

    __slots__ = ("messages", "row", "step")

    def __init__(self, messages: Messages, row: int = 0) -> None:
        """`row` is its place among `messages`, and moves on; `step` is the transform it is at."""
        self.messages = messages
        self.row = row
        self.step = 0


# One transform, ready to run: the changed document, or None if the message is dropped.
Step: TypeAlias = Callable[[Document, At], Document | None]


class TransformError(Exception):
    """A document cannot be transformed as asked. The message is set aside with this text."""


class Missing:
    """The value of a field that is not there."""


MISSING = Missing()
