"""The programs that build images, behind one face: buildah, podman, docker."""

import os
import platform as machine
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from image_builder import archives
from image_builder.trouble import ImageError, answers, run

VARIABLE: Final = "IMAGE_BUILDER"
KNOWN: Final = ("buildah", "podman", "docker")
_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_EMULATORS: Final = Path("/proc/sys/fs/binfmt_misc")


def native_platform() -> str:
    """Of this machine, as images write it."""
    processor = machine.machine()
    return f"linux/{_PROCESSORS.get(processor, processor)}"


@dataclass(frozen=True, slots=True)
class Builder:
    """One of the programs, with the variables under which it works here."""

    program: str
    env: Mapping[str, str]

    def runs(self, platform: str, emulators: Path = _EMULATORS) -> bool:
        """Whether programs of `platform` run here: the machine's own, or by an emulator that the
        kernel starts for them (binfmt_misc).
        """
        if platform == native_platform():
            return True
        names = [name for name, known in _PROCESSORS.items() if f"linux/{known}" == platform]
        entries = [emulators / f"qemu-{name}" for name in names]
        return any(entry.exists() and "enabled" in entry.read_text() for entry in entries)

    def has(self, name: str) -> bool:
        """Whether the image is in the builder's store."""
        inspect = (
            ["inspect", "--type", "image"] if self.program == "buildah" else ["image", "inspect"]
        )
        return answers([self.program, *inspect, name], env=self.env)

    def pull(self, name: str, *, platform: str) -> bool:
        """Whether a registry gave the image."""
        return answers([self.program, "pull", "--platform", platform, name], env=self.env)

    def build(self, context: Path, *, name: str, arguments: Sequence[str] = ()) -> None:
        """Build a folder with its Dockerfile."""
        # Stages at the same time, and every step kept for the next build; docker does both unasked.
        ways = [] if self.program == "docker" else ["--layers", "--jobs=0"]
        run([self.program, "build", *ways, *arguments, "--tag", name, str(context)], env=self.env)

    def save(self, name: str, archive: Path) -> None:
        """Write an image to an archive that `ctr images import` reads, or leave the old one."""
        unfinished = archive.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        if self.program == "docker":
            run([self.program, "save", f"--output={unfinished}", name], env=self.env)
        else:
            # Beside the archive: an image may be more than a temporary folder has room for.
            with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
                plain = ["--disable-compression"] if self.program == "buildah" else []
                words = ["push", "--quiet", "--format=oci", *plain, name, f"dir:{folder}"]
                run([self.program, *words], env=self.env)
                archives.write(unfinished, Path(folder), name=name)
        unfinished.replace(archive)


def choose() -> Builder:
    """The first that works, or the one that the variable IMAGE_BUILDER names.

    Raises:
        ImageError: none does.
    """
    asked = os.environ.get(VARIABLE)
    if asked and asked not in KNOWN:
        raise ImageError(f"{VARIABLE}={asked}: use one of {', '.join(KNOWN)}")
    for program in (asked,) if asked else KNOWN:
        for env in _surroundings(program):
            if answers([program, "info"], env=env):
                return Builder(program, env)
    raise ImageError(
        f"no program that builds images works here (tried: {asked or ', '.join(KNOWN)}). On "
        "Debian, as root: apt-get install buildah. For docker, its daemon must run: docker info"
    )


def _surroundings(program: str) -> list[Mapping[str, str]]:
    """Variables to try: inside containers and small machines only the plainest ways work."""
    if program != "buildah":
        return [os.environ]
    # No namespaces of its own: root on a small machine may not make them.
    plain = {"BUILDAH_ISOLATION": "chroot", **os.environ}
    return [plain, {**plain, "STORAGE_DRIVER": "vfs"}]
