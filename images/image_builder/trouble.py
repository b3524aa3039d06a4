"""What may go wrong, said so that it can be mended; and how commands are run."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

LAST_LINES: Final = 30  # of a failed command's output, shown with the error


class ImageError(Exception):
    """The images cannot be built here; the message says why and what to do."""


def answers(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> bool:
    """Whether a command exists and succeeds."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; its output.

    Raises:
        ImageError: it failed; with the end of what it said.
    """
    done = subprocess.run(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        words = " ".join(command[:2])
        raise ImageError(f"{last}\n\n{words} failed (exit code {done.returncode}), see above")
    return done.stdout
