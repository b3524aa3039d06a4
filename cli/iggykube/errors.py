"""Failures that a user can do something about: shown as one line, never as a traceback."""

from collections.abc import Sequence
from typing import ClassVar


class CommandError(Exception):
    """The text says what is wrong and what to do. `exit_code` is what the program ends with."""

    exit_code: ClassVar[int] = 1


class FileProblems(CommandError):
    """Files that cannot be used: a line for each problem."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Each line names file, line and field."""
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class LocalError(CommandError):
    """Local mode cannot go on."""


class BrokerDied(LocalError):
    """The broker ended by itself."""


class Interrupted(CommandError):
    """The user asked twice to stop, and something was left undone."""

    exit_code = 130


class Stopped(CommandError):
    """The user asked to stop while something was being waited for."""

    exit_code = 0
