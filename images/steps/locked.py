"""Which locked packages an image gets: what it asks for, and all that this wants in turn.

`requirements.lock` has the packages of all programs, each with its version, its hashes and a line
that says for whom it is there ("# via"). Followed backwards, those lines lead to what one program
needs, without asking an index.

    locked.py extra NAME…          the lines for what extras of pyproject.toml want
    locked.py packages NAME…       the lines for these packages
    … instead FILE                 FILE is written as the lock is, and its packages take the place
                                   of the lock's: another version for one image

A stage of its own runs this, so that a change of the lock makes the layers of those images new
that have what changed, and no others.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LOCK = Path("requirements.lock")
PROJECT = Path("pyproject.toml")


@dataclass(frozen=True)
class Entry:
    """One package in one version, as the lock has it."""

    package: str
    lines: str
    wanted_by: frozenset[str]


def entries(file: Path = LOCK) -> list[Entry]:
    """All of the lock. A package has several where Pythons or systems differ."""
    return [_entry(text) for text in re.split(r"\n(?=[^\s#])", file.read_text().strip())]


def replaced(lock: list[Entry], others: list[Entry]) -> list[Entry]:
    """The lock with other versions of some of its packages."""
    names = {entry.package for entry in others}
    if missing := sorted(names - {entry.package for entry in lock}):
        raise SystemExit(f"requirements.lock lacks {', '.join(missing)}: nothing to replace")
    return [*(entry for entry in lock if entry.package not in names), *others]


def _entry(text: str) -> Entry:
    lines, _, parents = text.partition("\n    # via ")
    name = re.match(r"[a-z0-9._-]+(?===)", lines)
    if name is None or not parents:
        raise SystemExit(f"requirements.lock: not understood: {text[:60]!r}: run: make lock")
    return Entry(name[0], lines, frozenset(parents.strip().split(", ")))


def extra(name: str) -> list[str]:
    """The packages that our package and one of its extras ask for."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    if name not in extras:
        raise SystemExit(f"extra {name!r} is not in pyproject.toml; there are {', '.join(extras)}")
    found: list[str] = [*project["dependencies"], *extras[name]]
    if nested := [one for one in found if one.startswith("iggykube[")]:
        raise SystemExit(f"extra {name!r} refers to {nested[0]}: an image takes one program's")
    return [_package(requirement) for requirement in found]


def _package(requirement: str) -> str:
    """Its name as the lock writes it."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(asked: Iterable[str], lock: Iterable[Entry]) -> Iterator[str]:
    """The lock's lines for these packages, and for what they want, in its order."""
    lock = list(lock)
    found = set(asked)
    if missing := sorted(found - {entry.package for entry in lock}):
        raise SystemExit(f"requirements.lock lacks {', '.join(missing)}: run: make lock")
    before = 0
    while before != len(found):
        before = len(found)
        found |= {entry.package for entry in lock if entry.wanted_by & found}
    yield from (entry.lines for entry in lock if entry.package in found)


def main(arguments: list[str]) -> None:
    """Print what was asked for, an entry a line."""
    lock = entries()
    match arguments:
        case [*arguments, "instead", file]:
            lock = replaced(lock, entries(Path(file)))
    match arguments:
        case ["extra", *names] if names:
            asked = [package for name in names for package in extra(name)]
        case ["packages", *names] if names:
            asked = names
        case _:
            raise SystemExit(__doc__)
    sys.stdout.write("\n".join(needed(asked, lock)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
