"""One document that is accepted or refused: a row of the tables in `resource_cases`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """Refused at `path` with `words` in the message, accepted without a path. With `old` it is an
    update of that object.
    """

    name: str
    value: Mapping[str, Any]
    old: Mapping[str, Any] | None = None
    path: str = ""
    words: str = ""

    @property
    def is_accepted(self) -> bool:
        return not self.path
