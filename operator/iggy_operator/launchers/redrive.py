"""The annotation `redrive`: any text, and behind it which dead letters are written again, in the
words of `iggykube sink redrive`.
"""

from typing import Any, Final

from iggy_operator.units import time_of

REQUEST_CHARACTERS_MAX: Final = 1024  # of the annotation, as the job's file takes them
WORDS_MAX: Final = 32  # of one choice
CLASS_CHARACTERS_MAX: Final = 255
STAGES: Final = ("decode", "transform", "write")
_LISTS: Final = {"--error-class": "errorClasses", "--stage": "stages"}
_TIMES: Final = {"--from": "from", "--to": "to"}


def block(text: str) -> dict[str, Any]:
    """The block `redrive` of the job's file. Raises ValueError: a choice is wrong, and says it."""
    found: dict[str, Any] = {"request": text[:REQUEST_CHARACTERS_MAX]}
    words = iter(text.split())
    for word in words:
        if not word.startswith("--"):
            continue  # makes the request another one, and chooses nothing
        name, is_joined, value = word.partition("=")
        if name not in _LISTS and name not in _TIMES:
            known = ", ".join((*_LISTS, *_TIMES))
            raise ValueError(f"{name} is no choice of letters: there are {known}")
        _add(found, name, value if is_joined else next(words, ""))
    if "from" in found and "to" in found and time_of(found["from"]) >= time_of(found["to"]):
        raise ValueError("--from: must be before --to")
    return found


def _add(found: dict[str, Any], name: str, value: str) -> None:
    if name in _TIMES:
        try:
            time_of(value)
        except ValueError:
            raise ValueError(
                f"{name}: {value!r} is no time with a zone, such as 2026-05-01T12:00:00Z"
            ) from None
        found[_TIMES[name]] = value
        return
    if name == "--stage" and value not in STAGES:
        raise ValueError(f"{name}: {value!r} is none: there are {', '.join(STAGES)}")
    if not 1 <= len(value) <= CLASS_CHARACTERS_MAX:
        raise ValueError(f"{name}: must have 1 to {CLASS_CHARACTERS_MAX} characters")
    chosen = found.setdefault(_LISTS[name], [])
    chosen.append(value)
    if len(chosen) > WORDS_MAX:
        raise ValueError(f"{name}: at most {WORDS_MAX} can be named")
