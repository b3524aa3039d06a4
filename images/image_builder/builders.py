"""The programs that build images, behind one face: buildah, podman, docker."""

import os
import platform as machine
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from image_builder.trouble import ImageError, answers, run

VARIABLE: Final = "IMAGE_BUILDER"
KNOWN: Final = ("buildah", "podman", "docker")
_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def native_platform() -> str:
    """Of this machine, as images write it."""
    processor = machine.machine()
    return f"linux/{_PROCESSORS.get(processor, processor)}"


@dataclass(frozen=True, slots=True)
class Builder:
    """One of the programs, with the variables under which it works here."""

    program: str
    env: Mapping[str, str]

    def is_native(self, platform: str) -> bool:
        """Whether what is built for `platform` runs here."""
        return platform == native_platform()

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
        layers = [] if self.program == "docker" else ["--layers"]
        run([self.program, "build", *layers, *arguments, "--tag", name, str(context)], env=self.env)

    def save(self, name: str, archive: Path) -> None:
        """Write an image to an archive that `ctr images import` reads, or leave the old one."""
        unfinished = archive.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        match self.program:
            case "buildah":
                # Not compressed: packing takes longer than all the rest, and the way is short.
                place = f"oci-archive:{unfinished}:{name}"
                words = ["push", "--quiet", "--disable-compression", name, place]
            case "podman":
                words = ["save", "--quiet", "--format=oci-archive", f"--output={unfinished}", name]
            case _:
                words = ["save", f"--output={unfinished}", name]
        run([self.program, *words], env=self.env)
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
