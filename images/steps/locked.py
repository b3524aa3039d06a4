"""Which locked packages an image gets: what an extra wants, and all that this wants in turn.

`requirements.lock` has the packages of all programs, with their hashes; an image needs one
program's. pip says which those are, the lock which version and which bytes.

    locked.py wanted EXTRA         the requirements of an extra of pyproject.toml
    locked.py versions             the lock without hashes, as constraints for pip's search
    locked.py pinned REPORT        the lock's lines for what pip's report names, with hashes

Libraries are installed before our own code, so that a change of it makes only a small layer new.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

LOCK = Path("requirements.lock")
PROJECT = Path("pyproject.toml")


def wanted(extra: str) -> list[str]:
    """The requirements of our package and of one of its extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    if extra not in extras:
        raise SystemExit(f"extra {extra!r} is not in pyproject.toml; there are {', '.join(extras)}")
    found: list[str] = [*project["dependencies"], *extras[extra]]
    if nested := [one for one in found if one.startswith("iggykube[")]:
        raise SystemExit(f"extra {extra!r} refers to {nested[0]}: an image takes one program's")
    return found


def blocks() -> dict[str, list[str]]:
    """Package → its entries in the lock; there are several where Pythons or systems differ."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", LOCK.read_text().strip()):
        name = re.match(r"[a-z0-9._-]+(?===)", entry)
        if name is None:
            raise SystemExit(f"requirements.lock: no package in {entry[:60]!r}: run: make lock")
        found.setdefault(name[0], []).append(entry)
    return found


def versions() -> list[str]:
    """Name, version and marker of every entry."""
    entries = [entry for found in blocks().values() for entry in found]
    return [entry.partition("\\")[0].strip() for entry in entries]


def pinned(report: Path) -> list[str]:
    """The entries, with hashes, of what pip would install."""
    installs = json.loads(report.read_text())["install"]
    names = {re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower() for one in installs}
    locked = blocks()
    if missing := sorted(names - set(locked)):
        raise SystemExit(f"requirements.lock lacks {', '.join(missing)}: run: make lock")
    return [entry for name in sorted(names) for entry in locked[name]]


def main(arguments: list[str]) -> None:
    """Print what was asked for, an entry a line."""
    match arguments:
        case ["wanted", extra]:
            lines = wanted(extra)
        case ["versions"]:
            lines = versions()
        case ["pinned", report]:
            lines = pinned(Path(report))
        case _:
            raise SystemExit(__doc__)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
