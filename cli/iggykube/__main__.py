"""`iggykube`: run the command line, turn every expected failure into one line and an exit code.

0 all is well; 1 it failed; 2 the command was written wrongly; 130 interrupted before it began.
"""

import os
import sys
from typing import Final, NoReturn

import click

from iggykube.commands import cli
from iggykube.errors import CommandError, FileProblems

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


def main() -> NoReturn:
    """Entry point of the program."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        cli.main(arguments, prog_name="iggykube", standalone_mode=False)
        if sys.stdout is not None:  # it may have been closed before we began
            sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _refuse(error)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except (CommandError, OSError) as error:
        return _explain(error)
    return 0


def _refuse(error: click.ClickException) -> int:
    """A command that was written wrongly: one line that names option and value."""
    text = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(text, err=True)
        return error.exit_code
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "iggykube"
        text = f"{' '.join(text.split()).rstrip('.')} (see {path} --help)"
    return _fail(text, error.exit_code)


def _explain(error: CommandError | OSError) -> int:
    """A failure that the user can do something about."""
    if isinstance(error, FileProblems):
        for line in error.lines:
            click.echo(line, err=True)
        return error.exit_code
    if isinstance(error, CommandError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, BrokenPipeError):
        # Whoever read our output is gone. What Python would still write at exit goes nowhere.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    where = f"{error.filename}: " if error.filename else ""
    return _fail(f"{where}{error.strerror or error}", EXIT_FAILED)


def _fail(message: str, exit_code: int) -> int:
    click.echo(f"iggykube: {message}", err=True)
    return exit_code


if __name__ == "__main__":
    main()
