"""What an image is made of: the files that its Dockerfile may see, and their fingerprint."""

import hashlib
import os
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

STAGES = ("broker", "operator", "spark")
VARIANTS = ("spark-4.1", "spark-4.2")  # built when they are named, and only then


def version(root: Path) -> str:
    """The project's version: the tag of its images."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return found


def name(root: Path, stage: str) -> str:
    """What pods call the image of a stage."""
    return f"iggykube/{stage}:{version(root)}"


def files(root: Path) -> Iterator[Path]:
    """The files that `.dockerignore` lets through, in a fixed order."""
    lines = (root / ".dockerignore").read_text().splitlines()
    refused = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for line in lines:
        if line.startswith("!"):
            yield from _below(root / line[1:], refused)


def _below(path: Path, refused: list[str]) -> Iterator[Path]:
    if any(fnmatch(path.name, pattern) for pattern in refused):
        return
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            yield from _below(entry, refused)
    else:
        yield path


def fingerprint(root: Path, *, stage: str, platform: str, base: str) -> str:
    """Changes with anything that may change the image, but for what registries give."""
    digest = hashlib.sha256(f"{stage} {platform} {base}".encode())
    for path in (root / "Dockerfile", root / ".dockerignore", *files(root)):
        mode = "x" if os.access(path, os.X_OK) else "-"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"\n{path.relative_to(root)} {mode} {content}".encode())
    return digest.hexdigest()
