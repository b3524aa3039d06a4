"""`iggy-broker [--config FILE]`: read the configuration, run the supervisor.

`iggy-broker backup …` and `iggy-broker restore …` are programs of their own: see the modules.

Exit codes: 0 stopped as asked, 1 cannot start, 2 wrong arguments or configuration (the reason is
the last line of the log), 70 a shard failed.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from iggy_broker import __version__, logs
from iggy_broker.config import ConfigError, effective, load
from iggy_broker.logs import event

EXIT_CANNOT_START: Final = 1
EXIT_USAGE: Final = 2

_COMMANDS: Final = {"backup": "iggy_broker.backup", "restore": "iggy_broker.restore.command"}

logger = logging.getLogger("iggy_broker")

_EPILOG: Final = """\
Settings come from the file (TOML; IGGY_CONFIG_PATH names it too), then from IGGY_* variables, e.g.
IGGY_SYSTEM_PATH (data directory) and IGGY_TCP_ADDRESS. IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD
make the first user of a new data directory; without them a password is made and shown once.

iggy-broker backup --to FOLDER copies the data directory while the broker runs; see
iggy-broker backup --help. iggy-broker restore brings one back from an archive; see
iggy-broker restore --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the broker, or a command of its own; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _COMMANDS:
        command = importlib.import_module(_COMMANDS[given[0]])  # as late as the broker itself
        return int(command.main(given[1:]))
    options = _parser().parse_args(given)
    logs.set_up("info")
    logs.catch_all()
    try:
        loaded = load(options.config, _environment(default_root=options.default_root))
    except ConfigError as error:
        return _give_up(str(error), EXIT_USAGE)
    if options.show_config:
        sys.stdout.write(effective(loaded.config))
        return 0
    logs.set_up(loaded.config.system.logging.level)
    for warning in loaded.warnings:
        logger.warning("! %s", warning, extra=event("setting_warning"))
    # Imported late, so that --help and wrong settings answer at once.
    try:
        from iggy_broker.storage.explain import explain
        from iggy_broker.supervisor import CANNOT_START, supervise
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("iggy"):
            raise
        fix = "install it with: pip install 'iggykube[broker]'"
        missing = f"the Python package {error.name} is missing: {fix}"
        return _give_up(missing, EXIT_CANNOT_START)
    try:
        return supervise(loaded.config, fresh=options.fresh)
    except CANNOT_START as error:
        return _give_up(explain(error, str(loaded.config.system.path)), EXIT_CANNOT_START)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iggy-broker",
        description="The IggyKube message broker.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    parser.add_argument(
        "--show-config", action="store_true", help="print the settings in force and exit"
    )
    parser.add_argument("-f", "--fresh", action="store_true", help="empty the data directory first")
    parser.add_argument(
        "--with-default-root-credentials",
        dest="default_root",
        action="store_true",
        help="iggy and iggy, where IGGY_ROOT_USERNAME or IGGY_ROOT_PASSWORD is missing",
    )
    parser.add_argument("--version", action="version", version=f"iggy-broker {__version__}")
    return parser


def _environment(*, default_root: bool) -> Mapping[str, str]:
    """The variables, with root's if they are missing and that is wanted."""
    if not default_root:
        return os.environ
    names = ("IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD")
    return {**os.environ, **{name: os.environ.get(name) or "iggy" for name in names}}


def _give_up(why: str, code: int) -> int:
    logger.critical("! cannot start: %s", why, extra=event("cannot_start", code=code))
    return code


if __name__ == "__main__":
    sys.exit(main())
