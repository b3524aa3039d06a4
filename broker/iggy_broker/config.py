"""Read the configuration: built-in defaults, then the TOML file, then `IGGY_*` variables.

A wrong value stops the start and names the file or variable, the key, the value and the fix. An
unknown name is a warning with the nearest known one; `IGGY_CONFIG_STRICT=true` makes it an error:
a typo in a durability key must not go unseen.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from iggy_broker import config_issuers
from iggy_broker.config_keys import ENVIRONMENT_PREFIX, Key, build, variable_of
from iggy_broker.config_planned import (
    OTHER_VARIABLES,
    PLANNED,
    PLANNED_LISTS,
    PLANNED_VARIABLES,
    WITHOUT_EFFECT,
    asks_for_nothing,
)
from iggy_broker.config_sections import KEYS, Config, Root
from iggy_broker.config_values import Secret

__all__ = ["KEYS", "Config", "ConfigError", "Loaded", "effective", "load", "sample", "settings"]

CONFIG_PATH_VARIABLE: Final = "IGGY_CONFIG_PATH"
STRICT_VARIABLE: Final = "IGGY_CONFIG_STRICT"
FILE_NAMES: Final = ("server.toml", "config.toml")  # looked for in the working directory
FILE_BYTES_MAX: Final = 1 << 20
USERNAME_BYTES: Final = range(3, 51)  # Iggy protocol 0.11: 3 to 50
PASSWORD_BYTES: Final = range(3, 101)  # 3 to 100

# Kubernetes gives every pod variables of this shape for a Service called `iggy` or `iggy-...`.
_SERVICE_LINK: Final = re.compile(
    r"IGGY_(\w+?_)??(?P<kind>SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)"
)


_LIST_PREFIXES: Final = tuple(f"{variable_of(name)}_" for name in PLANNED_LISTS)


class ConfigError(Exception):
    """A configuration that the broker will not start with. The text says what to change."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and what whoever starts the broker should know about it."""

    config: Config
    warnings: tuple[str, ...]  # one line each
    source: Path | None  # the file that was read


@dataclass(slots=True)
class _Reading:
    """What was found so far: values by attribute path, and whose they are."""

    values: dict[tuple[str, ...], Any] = field(default_factory=dict)
    origins: dict[tuple[str, ...], tuple[str, str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


_BY_SPELLING: Final[dict[str, Key]] = {
    spelling: key for key in KEYS for spelling in reversed(key.spellings)
}
_BY_VARIABLE: Final[dict[str, str]] = {
    variable_of(name): name for name in (*sorted(PLANNED), *WITHOUT_EFFECT, *_BY_SPELLING)
}


def load(path: Path | None, environ: Mapping[str, str]) -> Loaded:
    """The configuration from `path` (else where `environ` or the working directory says).

    Raises ConfigError for a file that cannot be read, a value that cannot be used, two spellings
    of one key that disagree, and half a pair of root credentials.
    """
    source = _source(path, environ)
    reading = _Reading()
    if source is not None:
        for name, value in _flatten(_read(source)):
            _take(reading, name, value, origin=f"{source}: {name}")
    reading.origins.clear()  # the environment may differ from the file, not from itself
    for variable, value in sorted(environ.items()):
        if variable.startswith(ENVIRONMENT_PREFIX) and value.strip():
            _take_variable(reading, variable, value)
    _take_issuers(reading, environ)
    if reading.unknown and environ.get(STRICT_VARIABLE, "").strip().lower() in ("true", "1"):
        raise ConfigError("; ".join(reading.unknown))
    config: Config = build(Config, reading.values)
    if problem := config.problem:
        raise ConfigError(problem)
    config = _without_quic(reading, msgspec.structs.replace(config, root=_root(environ)))
    return Loaded(config, tuple(reading.unknown + reading.warnings), source)


def effective(config: Config) -> str:
    """The configuration as TOML, without secrets: what `load` would read back."""
    return _toml(config, commented=False)


def settings(config: Config) -> dict[str, str]:
    """The configuration by key, for a log line; of a secret only whether it is set."""
    shown = {}
    for key in KEYS:
        value = _value_of(config, key)
        text = str(value).lower() if isinstance(value, bool) else key.setting.show(value)
        shown[key.path] = ("***" if value else "") if key.setting.secret else text
    return shown


def sample() -> str:
    """A file with every setting at its default, each with what it means and its variable."""
    return _toml(Config(), commented=True)


def _source(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or (Path(name) if (name := environ.get(CONFIG_PATH_VARIABLE)) else None)
    if named is not None:
        return named
    return next((Path(name) for name in FILE_NAMES if Path(name).is_file()), None)


def _read(source: Path) -> dict[str, Any]:
    try:
        data = source.read_bytes()
    except OSError as error:
        hint = f"make the file, or unset {CONFIG_PATH_VARIABLE}"
        raise ConfigError(f"{source}: cannot be read ({error.strerror}); {hint}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{source}: larger than {FILE_BYTES_MAX} bytes; this is no configuration")
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _take_variable(reading: _Reading, variable: str, value: str) -> None:
    is_part = config_issuers.is_part(variable)  # of a list, which is taken as a whole
    if variable in OTHER_VARIABLES or is_part or _is_service_link(variable, value):
        return
    name = _BY_VARIABLE.get(variable)
    if name is not None:
        _take(reading, name, value, origin=variable)
    elif variable in PLANNED_VARIABLES or variable.startswith(_LIST_PREFIXES):
        reading.warnings.append(f"{variable}: known, but this version does not use it yet")
    else:
        reading.unknown.append(f"{variable}: unknown setting{_nearest(variable, _BY_VARIABLE)}")


def _take_issuers(reading: _Reading, environ: Mapping[str, str]) -> None:
    """The one list of tables that is obeyed: with variables for it, none of the file's count."""
    tables = config_issuers.tables_of(
        {name: text for name, text in environ.items() if text.strip()}
    )
    if tables:
        name = config_issuers.NAME
        _take(reading, name, tables, origin=f"{variable_of(name)}_...")


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes made the variable; `IGGY_TCP_PORT=80` is somebody's typo instead."""
    found = _SERVICE_LINK.fullmatch(variable)
    return found is not None and (found["kind"] != "PORT" or "://" in value)


def _take(reading: _Reading, name: str, value: object, *, origin: str) -> None:
    key = _BY_SPELLING.get(name)
    if key is not None:
        _set(reading, key, value, origin=origin)
    elif name in PLANNED or name in PLANNED_LISTS:
        if not asks_for_nothing(value):
            reading.warnings.append(f"{origin}: known, but this version does not use it yet")
    elif name in WITHOUT_EFFECT:
        if not asks_for_nothing(value):
            reading.warnings.append(f"{origin}: has no effect here: {WITHOUT_EFFECT[name]}")
    else:
        reading.unknown.append(f"{origin}: unknown setting{_nearest(name, _BY_SPELLING)}")


def _set(reading: _Reading, key: Key, value: object, *, origin: str) -> None:
    shown = "***" if key.setting.secret else repr(value)
    try:
        parsed = key.setting.parse(value)
    except ValueError as error:
        raise ConfigError(f"{origin} = {shown}: {error}") from None
    other = reading.origins.get(key.attributes)
    if other is not None and reading.values[key.attributes] != parsed:
        detail = f"{other[0]} = {other[1]} says otherwise; they are one setting, keep {key.path}"
        raise ConfigError(f"{origin} = {shown}: {detail}")
    reading.values[key.attributes] = parsed
    reading.origins[key.attributes] = (origin, shown)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else "; see the reference of settings"


def _root(environ: Mapping[str, str]) -> Root:
    username = environ.get("IGGY_ROOT_USERNAME", "")
    password = environ.get("IGGY_ROOT_PASSWORD", "")
    if bool(username) != bool(password):
        missing = "IGGY_ROOT_PASSWORD" if username else "IGGY_ROOT_USERNAME"
        raise ConfigError(f"{missing} is not set although its partner is; set both or neither")
    if not username:
        return Root()
    if len(username.encode()) not in USERNAME_BYTES:
        raise ConfigError(f"IGGY_ROOT_USERNAME = {username!r}: write 3 to 50 bytes")
    if len(password.encode()) not in PASSWORD_BYTES:
        raise ConfigError("IGGY_ROOT_PASSWORD: write 3 to 100 bytes")
    return Root(username=username, password=Secret(password))


def _without_quic(reading: _Reading, config: Config) -> Config:
    """Leave QUIC out where its library is missing, unless it was asked for: then ConfigError."""
    if not config.quic.enabled or importlib.util.find_spec("aioquic") is not None:
        return config
    what = "the Python package aioquic is missing: pip install 'iggykube[quic]'"
    if ("quic", "enabled") in reading.values:
        raise ConfigError(f"quic.enabled = true: {what}")
    reading.warnings.append(f"QUIC is not served: {what}, or write quic.enabled = false")
    return msgspec.structs.replace(config, quic=msgspec.structs.replace(config.quic, enabled=False))


def _value_of(config: Config, key: Key) -> Any:
    value: Any = config
    for name in key.attributes:
        value = getattr(value, name)
    return value


def _shown(key: Key, value: Any) -> str:
    """The value as TOML."""
    if isinstance(value, int) and key.setting.show is str:
        return str(value).lower()
    text = "" if key.setting.secret else key.setting.show(value)
    return msgspec.json.encode(text).decode()  # a JSON string is a TOML string


def _toml(config: Config, *, commented: bool) -> str:
    lines: list[str] = []
    table = ""
    for key in KEYS:
        parent, _, name = key.path.rpartition(".")
        if parent != table:
            lines += ["", f"[{parent}]"]
            table = parent
        if commented:
            lines += ["", *(f"# {line}" for line in textwrap.wrap(key.setting.doc, 96))]
            lines.append(f"# {key.variable}")
        lines.append(f"{name} = {_shown(key, _value_of(config, key))}")
    return "\n".join(lines).lstrip() + "\n"
