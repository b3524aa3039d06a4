"""`iggy-operator`: settings come from the environment, all begin with IGGY_OPERATOR_."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from iggy_operator import VERSION
from iggy_operator.program import logs
from iggy_operator.program.settings import (
    SETTINGS,
    SettingError,
    read_settings,
    unknown_variables,
)

EXIT_USAGE: Final = 2
_LOG: Final = logging.getLogger("iggy_operator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator; the exit code."""
    _parser().parse_args(arguments)
    logs.set_up("info")
    try:
        settings = read_settings(os.environ)
    except SettingError as error:
        _LOG.error("%s", error)
        return EXIT_USAGE
    logs.set_up(settings.log_level)
    for variable in unknown_variables(os.environ):
        _LOG.warning("there is no setting %s: it is ignored", variable)
    # Imported late, so that --help and wrong settings answer at once.
    from iggy_operator.program.main import run

    return asyncio.run(run(settings))


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {item.variable} ({item.default or 'empty'}): {item.meaning}" for item in SETTINGS]
    parser = argparse.ArgumentParser(
        prog="iggy-operator",
        description="Brings Iggy brokers in line with objects of Kubernetes.",
        epilog="Settings are variables of the environment:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


if __name__ == "__main__":
    sys.exit(main())
