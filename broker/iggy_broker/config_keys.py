"""How a setting is declared, and the catalogue of all declared settings. No values in here.

A setting is a field of a section (`Section`) whose type carries a `Setting`:

    interval_us: Annotated[int, Setting(values.duration, "What it does.", name="interval")] = ...

The key is the dotted path of the sections and the name; its environment variable is `IGGY_` and
that path in capitals with `_` for `.`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

ENVIRONMENT_PREFIX: Final = "IGGY_"


class Section(msgspec.Struct, frozen=True):
    """A table of the configuration file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting beside its default."""

    parse: Callable[[object], Any]
    doc: str  # meaning, unit and why that default; one line
    name: str = ""  # last part of the key, where it is not the field's name
    show: Callable[[Any], str] = str  # a value as text that `parse` reads back
    aliases: tuple[str, ...] = ()  # other dotted keys of the same setting
    secret: bool = False  # never shown


@dataclass(frozen=True, slots=True)
class Key:
    """One setting in its place."""

    path: str  # dotted
    attributes: tuple[str, ...]  # from the configuration down to the field
    setting: Setting
    default: Any

    @property
    def variable(self) -> str:
        """The environment variable of the canonical spelling."""
        return variable_of(self.path)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The canonical dotted key, then its aliases.

        Newer servers of the original dropped the `system` table, so each key below it is also
        known without.
        """
        short = self.path.removeprefix("system.")
        extra = () if short == self.path else (short,)
        return (self.path, *extra, *self.setting.aliases)


def variable_of(path: str) -> str:
    """The environment variable of a dotted key."""
    return ENVIRONMENT_PREFIX + path.replace(".", "_").upper()


def keys_of(section: type[Section], prefix: str = "", *parents: str) -> Iterator[Key]:
    """All settings of a section and the sections in it, in the order of the file."""
    hints = typing.get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        hint = hints[field.name]
        attributes = (*parents, field.name)
        if _is_section(hint):
            yield from keys_of(hint, f"{prefix}{field.name}.", *attributes)
            continue
        for setting in typing.get_args(hint)[1:]:
            if isinstance(setting, Setting):
                path = prefix + (setting.name or field.name)
                yield Key(path, attributes, setting, field.default)


def build(section: type[Section], given: Mapping[tuple[str, ...], Any], *parents: str) -> Any:
    """A section with the given values, by attribute path, and defaults for the rest."""
    hints = typing.get_type_hints(section)
    values = {}
    for name, hint in hints.items():
        attributes = (*parents, name)
        if _is_section(hint):
            values[name] = build(hint, given, *attributes)
        elif attributes in given:
            values[name] = given[attributes]
    return section(**values)


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)
