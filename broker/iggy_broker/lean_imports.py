"""Imports libraries without what only clients need of them: some 6 MiB in a broker that has none.

A package whose `__init__` brings everything gets a module in its place that does so later, when
something is taken from it. The parts that a server needs are then imported as always. If a library
has changed so much that this fails, it is imported whole.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)

_AIOHTTP: Final = (
    "aiohttp.client_exceptions",
    "aiohttp.web_protocol",
    "aiohttp.web_request",
    "aiohttp.web_response",
    "aiohttp.web_server",
)


class _Later(ModuleType):
    """A module that runs its own code when somebody takes something from it."""

    is_armed = False

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if not self.is_armed or name.startswith("__") or spec is None or spec.loader is None:
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment] # nothing comes later any more
        spec.loader.exec_module(self)
        return getattr(self, name)


def import_aiohttp() -> None:
    """The server of HTTP, without the client and what frameworks need."""
    _import(_AIOHTTP, ("aiohttp",))


def import_aioquic() -> None:
    """QUIC without what verifies the certificates of servers."""
    _import(("aioquic.tls",), ("certifi", "service_identity", "OpenSSL", "OpenSSL.crypto"))


def _import(wanted: tuple[str, ...], whole: tuple[str, ...]) -> None:
    """`wanted`, while the packages `whole` are put off."""
    put_off = _put_off(whole)
    try:
        for name in wanted:
            importlib.import_module(name)
    except (ImportError, AttributeError):
        for name in (*put_off, *wanted):
            sys.modules.pop(name, None)
        for name in wanted:
            importlib.import_module(name)
    for module in put_off.values():
        module.is_armed = True


def _put_off(names: tuple[str, ...]) -> dict[str, _Later]:
    found: dict[str, _Later] = {}
    for name in names:
        if name in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        found[name] = sys.modules[name] = module = _Later(spec)
        if spec.origin is not None and (version := _VERSION.search(Path(spec.origin).read_text())):
            module.__dict__["__version__"] = version[1]
        package, _, part = name.rpartition(".")
        if package in found:
            found[package].__dict__[part] = module
    return found
