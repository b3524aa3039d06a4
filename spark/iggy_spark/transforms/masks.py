"""`mask_fields`: values that nobody should read."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.formats.json import encode
from iggy_spark.transforms.arguments import Arguments
from iggy_spark.transforms.base import At, Document, Step

KEY_BYTES_MIN = 16  # a shorter key can be found by trying
KEY_BYTES_MAX = 4096


def mask_fields(value: object, place: str) -> Step:
    """Replace values by a fixed one, or by their HMAC-SHA-256 in hex: equal values stay equal.

    Null stays null. A text is hashed as its UTF-8, anything else as its JSON.
    """
    given = Arguments(value, place, ("fields", "sha256", "fixed"))
    targets = given.fields("fields")
    if ("sha256" in given) == ("fixed" in given):
        raise OptionError(f"{place}: either sha256 or fixed is expected")
    mask = _hashed(given) if "sha256" in given else _fixed(given.value("fixed"), given.at("fixed"))

    def step(document: Document, at: At) -> Document:
        for fields in targets:
            for holder, key in fields.places(document):
                if holder[key] is not None:
                    holder[key] = mask(holder[key])
        return document

    return step


def _fixed(value: object, place: str) -> Callable[[Any], Any]:
    if isinstance(value, (dict, list)):
        raise OptionError(f"{place}: a text, a number, true, false or null is expected")
    return lambda found: value


def _hashed(given: Arguments) -> Callable[[Any], str]:
    key = _key(Arguments(given.value("sha256"), given.at("sha256"), ("keyPath", "keyEnv")))

    def mask(value: Any) -> str:
        plain = value.encode() if isinstance(value, str) else encode(value)
        return hmac.digest(key, plain, "sha256").hex()

    return mask


def _key(given: Arguments) -> bytes:
    """The key, without white space around it. Read where the transform runs, never passed on."""
    if ("keyPath" in given) == ("keyEnv" in given):
        raise OptionError(f"{given.place}: either keyPath or keyEnv is expected")
    if "keyEnv" in given:
        name = given.text("keyEnv")
        place, key = given.at("keyEnv"), os.environb.get(name.encode(), b"").strip()
        if not key:
            raise OptionError(f"{place}: environment variable {name} is not set")
    else:
        place, path = given.at("keyPath"), Path(given.text("keyPath"))
        try:
            with path.open("rb") as file:
                key = file.read(KEY_BYTES_MAX + 1).strip()
        except (OSError, ValueError) as error:
            raise OptionError(f"{place}: {path} cannot be read: {error}") from error
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise OptionError(f"{place}: the key must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")
    return key
