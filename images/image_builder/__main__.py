"""`make images`: build what changed, and keep each image as an archive.

Exit codes: 0 done, 1 it cannot be done here (the reason is the last line), 2 wrong arguments.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from image_builder import base, builders, inputs, machine
from image_builder.builders import Builder
from image_builder.trouble import ImageError

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code."""
    options = parser().parse_args(arguments)
    try:
        make(options)
    except ImageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments that it takes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(
        prog="make images",
        description="Build the images and keep them as archives. What has not changed is left.",
        epilog=f"{builders.VARIABLE}=docker (or podman, buildah) chooses what builds.",
    )
    parser.add_argument(
        "stages",
        nargs="*",
        metavar="STAGE",
        help=f"some of: {', '.join(inputs.STAGES)} (these all); "
        f"{', '.join(inputs.VARIANTS)} (only when named)",
    )
    parser.add_argument(
        "--platform",
        default=builders.native_platform(),
        help="such as linux/arm64; another than this machine's needs an emulator (qemu-user)",
    )
    parser.add_argument(
        "--base", help=f"build on this image of the builder's store instead of {base.BASE}"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache / "iggykube/e2e/images",
        help="where archives go (%(default)s)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="build what has not changed, too, with Debian's newest updates",
    )
    return parser


def make(options: argparse.Namespace) -> None:
    """Build what has changed.

    Raises:
        ImageError: it cannot be done here.
    """
    stages: list[str] = options.stages or list(inputs.STAGES)
    known = (*inputs.STAGES, *inputs.VARIANTS)
    if wrong := sorted(set(stages) - set(known)):
        raise ImageError(f"{', '.join(wrong)}: no such image; there are {', '.join(known)}")
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    prints = {
        stage: inputs.fingerprint(
            ROOT, stage=stage, platform=options.platform, base=options.base or base.BASE
        )
        for stage in stages
    }
    todo = [
        stage
        for stage in stages
        if options.force or not _is_made(_archive(folder, stage, options.platform), prints[stage])
    ]
    for stage in stages:
        if stage not in todo:
            _say(f"{inputs.name(ROOT, stage)}: nothing changed")
    if not todo:
        return
    builder = builders.choose()
    name = options.base or base.ensure(builder, folder, platform=options.platform)
    _say(f"building with {builder.program} on {name}: minutes for the first time")
    with tempfile.TemporaryDirectory() as scratch:
        common = ["--platform", options.platform, "--build-arg", f"BASE={name}"]
        common += ["--build-arg", f"REFRESHED={_refreshed(folder, anew=options.force)}"]
        common += [*machine.proxy_arguments(), *machine.secrets(Path(scratch))]
        for stage in todo:
            archive = _archive(folder, stage, options.platform)
            _mark(archive).unlink(missing_ok=True)
            _make_one(builder, stage, archive=archive, common=common)
            _mark(archive).write_text(prints[stage])


def _say(line: str) -> None:
    print(line, flush=True)  # the next line may be minutes away


def _refreshed(folder: Path, *, anew: bool) -> str:
    """When Debian's updates were last looked for; it stays, so that images go on sharing layers."""
    file = folder / "refreshed"
    if anew:
        file.write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    return file.read_text() if file.exists() else "never"


def _archive(folder: Path, stage: str, platform: str) -> Path:
    """Of another processor than this machine's, the name says which."""
    if platform == builders.native_platform():
        return folder / f"{stage}.tar"
    return folder / f"{stage}-{platform.replace('/', '-')}.tar"


def _mark(archive: Path) -> Path:
    return archive.with_suffix(".inputs")


def _is_made(archive: Path, fingerprint: str) -> bool:
    mark = _mark(archive)
    return archive.exists() and mark.exists() and mark.read_text() == fingerprint


def _make_one(builder: Builder, stage: str, *, archive: Path, common: Sequence[str]) -> None:
    name = inputs.name(ROOT, stage)
    started = time.monotonic()
    own = ["--target", stage, "--build-arg", f"VERSION={inputs.version(ROOT)}"]
    builder.build(ROOT, name=name, arguments=[*own, *common])
    builder.save(name, archive)
    seconds = time.monotonic() - started
    _say(f"{name}: {archive} ({archive.stat().st_size / 1e6:.0f} MB, {seconds:.0f} s)")


if __name__ == "__main__":
    sys.exit(main())
