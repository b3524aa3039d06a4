"""Arguments of a transform, taken by name. Whatever is wrong is told with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.transforms.paths import Fields, Path, parse_fields, parse_path

FIELDS_MAX = 1000  # items of one argument
REGEX_CHARS_MAX = 1000
_REQUIRED: Any = object()


def nearest(word: object, known: Iterable[str]) -> str:
    """Words for an error: what was probably meant, or what there is."""
    known = list(known)
    near = get_close_matches(str(word).lower(), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"


def as_object(value: object, place: str) -> dict[str, Any]:
    """A value that must be an object with texts as keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise OptionError(f"{place}: an object is expected, not {shown(value)}")
    return value


def as_text(value: object, place: str) -> str:
    """A value that must be a text with something in it."""
    if not isinstance(value, str) or not value:
        raise OptionError(f"{place}: a text is expected, not {shown(value)}")
    return value


def as_regex(value: object, place: str) -> re.Pattern[str]:
    """A value that must be a regular expression."""
    text = as_text(value, place)
    if len(text) > REGEX_CHARS_MAX:
        raise OptionError(f"{place}: a pattern of more than {REGEX_CHARS_MAX} characters")
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise OptionError(f"{place}: {text!r} is not a regular expression: {error}") from error


def shown(value: object) -> str:
    """A value for an error, shortened."""
    return repr(value)[:60]


class Arguments:
    """The arguments at one place. Raises OptionError, the place in front, for all that is wrong."""

    def __init__(self, value: object, place: str, known: Collection[str]) -> None:
        """`known` are the names that may be there."""
        self.place = place
        self._given = as_object(value, place)
        for name in self._given:
            if name not in known:
                raise OptionError(f"{place}.{name}: not an argument, {nearest(name, known)}")

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def at(self, name: str) -> str:
        """The place of an argument."""
        return f"{self.place}.{name}"

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        """Whatever stands there."""
        found = self._given.get(name, default)
        if found is _REQUIRED:
            raise OptionError(f"{self.at(name)}: missing")
        return found

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """A text with something in it."""
        found = self.value(name, default)
        return found if found is default else as_text(found, self.at(name))

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        found = self.value(name, default)
        if not isinstance(found, bool):
            raise OptionError(f"{self.at(name)}: true or false is expected, not {shown(found)}")
        return found

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number in a range."""
        found = self.value(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            raise OptionError(f"{self.at(name)}: a whole number from {low} to {high} is expected")
        return found

    def word(self, name: str, words: Collection[str], default: Any = _REQUIRED) -> str:
        """One of these words."""
        found = self.value(name, default)
        if found not in words:
            raise OptionError(f"{self.at(name)}: {shown(found)}: {nearest(found, words)}")
        return str(found)

    def path(self, name: str) -> Path:
        """The path of one field."""
        return parse_path(self.value(name), self.at(name))

    def items(self, name: str, default: Any = _REQUIRED) -> list[tuple[Any, str]]:
        """A list as values with their places."""
        found = self.value(name, default)
        if not isinstance(found, list) or len(found) > FIELDS_MAX:
            raise OptionError(
                f"{self.at(name)}: a list of at most {FIELDS_MAX} is expected, not {shown(found)}"
            )
        return [(item, f"{self.at(name)}[{number}]") for number, item in enumerate(found)]

    def parts(self, name: str, known: Collection[str]) -> list[Arguments]:
        """A list of objects, at least one, with these arguments each."""
        found = [Arguments(item, place, known) for item, place in self.items(name)]
        if not found:
            raise OptionError(f"{self.at(name)}: empty, there is nothing to do")
        return found

    def fields(self, name: str) -> list[Fields]:
        """A list of paths, at least one, whose last step may have wildcards."""
        found = [parse_fields(item, place) for item, place in self.items(name)]
        if not found:
            raise OptionError(f"{self.at(name)}: empty, there is nothing to do")
        return found
