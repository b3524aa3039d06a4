"""The base image. Where no registry can be reached, Debian's own packages make the same."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from image_builder.builders import Builder, native_platform
from image_builder.trouble import ImageError, run

BASE: Final = "debian:bookworm-slim"
SUITE: Final = "bookworm"
OWN_NAME: Final = "localhost/iggykube-base:bookworm-slim"
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
    if not builder.runs(platform):
        raise ImageError(
            f"programs of {platform} do not run on this machine: on Debian, as root: "
            "apt-get install qemu-user-static binfmt-support"
        )
    processor = platform.rpartition("/")[2]
    name = OWN_NAME if platform == native_platform() else f"{OWN_NAME}-{processor}"
    if not builder.has(name):
        _import(builder, _archive(folder, processor), name=name, platform=platform)
    return name


def _import(builder: Builder, archive: Path, *, name: str, platform: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(archive, context / archive.name)
        text = f'FROM scratch\nADD {archive.name} /\nCMD ["bash"]\n'
        (context / "Dockerfile").write_text(text)
        builder.build(context, name=name, arguments=["--platform", platform])


def _archive(folder: Path, processor: str) -> Path:
    """A root file system as a tar file, kept for the next time."""
    archive = folder / f"debian-{SUITE}-slim-{processor}.tar"
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
        words = ["--variant=minbase", f"--arch={processor}", SUITE, str(tree)]
        run(["debootstrap", *words, *mirror(Path("/etc/apt"))])
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
