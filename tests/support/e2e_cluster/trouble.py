"""What the test cluster tells people: progress lines, and failures that name the way out."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OUTPUT_LINES_SHOWN = 15


class ClusterError(Exception):
    """Something that the reader can put right; the text says what and how."""


def say(line: str) -> None:
    sys.stdout.write(f"cluster: {line}\n")
    sys.stdout.flush()


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
    timeout_s: float = 120.0,
) -> str:
    """Its standard output; ClusterError with the end of what it said if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(
            f"{words[0]} is not installed; run: .ci/machine --e2e --install"
        ) from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"no end after {timeout_s:.0f} s: {shlex.join(words)}") from None
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-OUTPUT_LINES_SHOWN:])
        raise ClusterError(f"exit code {done.returncode}: {shlex.join(words)}\n{said}")
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether it ends well: for questions, and for cleaning what may not be there."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    return done.returncode == 0
