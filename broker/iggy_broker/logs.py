"""Logs: one JSON object a line on standard error, with the shard, client and partition.

    logger.info("segment rolled", extra={"partition": "3/1/0"})

gives `{"time": "2026-01-31T12:00:00.000Z", "level": "info", "shard": 1, "logger": "...",
"message": "segment rolled", "partition": "3/1/0"}`. Whatever is passed as `extra` is a field.
Secrets never are.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final, TextIO

TRACE: Final = 5  # below logging.DEBUG: per-request lines
LEVELS: Final = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MESSAGE_CHARACTERS_MAX: Final = 4096  # longer texts are cut: a line is for people

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One record, one line of JSON."""

    def __init__(self, shard: int | None) -> None:
        """`shard`: the number of this process; None for the supervisor."""
        super().__init__()
        self._shard = shard

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = time.gmtime(record.created)
        fields: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "shard": self._shard,
            "logger": record.name,
            "message": record.getMessage()[:MESSAGE_CHARACTERS_MAX],
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(
            {name: value for name, value in fields.items() if value is not None},
            default=str,
            ensure_ascii=False,
        )


def set_up(level: str, *, shard: int | None = None, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (standard error). Call it again after a fork."""
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(shard))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    logging.logThreads = False  # asked for by nobody, and paid for by every record
    logging.logProcesses = False
    logging.logMultiprocessing = False
