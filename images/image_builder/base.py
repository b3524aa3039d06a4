"""The base image. Where no registry can be reached, Debian's own packages make the same."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from image_builder.builders import Builder
from image_builder.trouble import ImageError, run

BASE: Final = "debian:bookworm-slim"
SUITE: Final = "bookworm"
OWN_NAME: Final = "localhost/iggykube-base:bookworm-slim"
ARCHIVE: Final = f"debian-{SUITE}-slim.tar"
# What the slim image leaves out, also of packages that are installed later.
_LEFT_OUT: Final = ("/usr/share/man", "/usr/share/locale", "/usr/share/info")
_DPKG: Final = "".join(
    f"path-exclude {folder}/*\n" for folder in (*_LEFT_OUT, "/usr/share/doc")
) + ("path-include /usr/share/doc/*/copyright\n")


def ensure(builder: Builder, folder: Path, *, platform: str) -> str:
    """The name of a base image that the builder has now.

    Raises:
        ImageError: neither a registry nor Debian's packages can be had.
    """
    if builder.pull(BASE, platform=platform):
        return BASE
    if not builder.is_native(platform):
        raise ImageError(
            f"{BASE} for {platform} cannot be had from a registry, and Debian's packages make a "
            "base for this machine's own processor only: build where a registry can be reached"
        )
    if not builder.has(OWN_NAME):
        _import(builder, _archive(folder))
    return OWN_NAME


def _import(builder: Builder, archive: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(archive, context / ARCHIVE)
        (context / "Dockerfile").write_text(f'FROM scratch\nADD {ARCHIVE} /\nCMD ["bash"]\n')
        builder.build(context, name=OWN_NAME)


def _archive(folder: Path) -> Path:
    """A root file system as a tar file, kept for the next time."""
    archive = folder / ARCHIVE
    if archive.exists():
        return archive
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise ImageError(
            f"{BASE} cannot be had from a registry. Its stand-in is made with debootstrap, as root "
            "(apt-get install debootstrap); or name an image that the builder has: "
            'make images ARGS="--base NAME"'
        )
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "root")
        run(["debootstrap", "--variant=minbase", SUITE, str(tree), *mirror(Path("/etc/apt"))])
        _slim(tree)
        _same_sources(tree, Path("/etc/apt"))
        unfinished = archive.with_suffix(".unfinished")
        run(["tar", "--create", "--file", str(unfinished), "--directory", str(tree), "."])
        unfinished.replace(archive)
    return archive


def mirror(apt: Path) -> list[str]:
    """The address that this machine's own packages come from; none means debootstrap's default."""
    texts = [path.read_text() for path in _sources(apt)]
    pattern = r"^(?:URIs:|deb)[ \t]+(?:\[.*?\][ \t]+)?(\S+)"
    return [one for text in texts for one in re.findall(pattern, text, re.M)][:1]


def _sources(apt: Path) -> list[Path]:
    """Debian's own: those of others are signed with keys that the new base has not."""
    kept = [*apt.glob("sources.list"), *apt.glob("sources.list.d/*.sources")]
    return sorted(path for path in kept if _is_debians(path.read_text()))


def _is_debians(text: str) -> bool:
    keys = re.findall(r"signed-by[:=][ \t]*/\S*/([^/\s]+)", text, re.I)
    return SUITE in text and all(key.startswith("debian-archive") for key in keys)


def _slim(tree: Path) -> None:
    (tree / "etc/dpkg/dpkg.cfg.d/docker").write_text(_DPKG)
    for folder in (*_LEFT_OUT, "/var/cache/apt", "/var/lib/apt/lists", "/var/log"):
        for entry in (tree / folder[1:]).iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path in (tree / "usr/share/doc").rglob("*"):
        if path.name != "copyright" and (path.is_file() or path.is_symlink()):
            path.unlink()


def _same_sources(tree: Path, apt: Path) -> None:
    """Security updates, and whatever this machine needs for reaching its mirror."""
    sources = _sources(apt)
    if sources:
        (tree / "etc/apt/sources.list").unlink(missing_ok=True)
    for path in sources:
        shutil.copy(path, tree / "etc/apt" / path.relative_to(apt))
    for path in sorted(apt.glob("apt.conf.d/*")):
        if "Acquire::" in path.read_text():
            shutil.copy(path, tree / "etc/apt/apt.conf.d")
