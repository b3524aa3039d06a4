"""Logs: one JSON object a line on standard error, with the object and the pass it is about."""

import json
import logging
import sys
import time
from types import TracebackType
from typing import Any, Final

from iggy_operator.log_context import fields_of_pass

TEXT_CHARACTERS_MAX: Final = 4_096
"""Longer texts are cut: a line is for people."""
TRACE_CHARACTERS_MAX: Final = 16_384
"""Of a traceback the end is kept."""
_EXPECTED: Final = ("OS signals are ignored", "Cleanup activity is not executed")
"""kopf's warnings that it leaves signals to us and is cancelled, as it shall be."""
# Whoever splits text into lines may split at these, too, and JSON leaves them as they are.
_LINE_ENDS: Final = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x7f\x85\u2028\u2029"}


class JsonFormatter(logging.Formatter):
    """One record, one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = time.gmtime(record.created)
        fields: dict[str, Any] = {
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:TEXT_CHARACTERS_MAX],
            **fields_of_pass(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)[-TRACE_CHARACTERS_MAX:]
        return json.dumps(fields, ensure_ascii=False, default=str).translate(_LINE_ENDS)


def set_up(level: str) -> None:
    """All lines of this process, also those of libraries, which say less."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(lambda record: not record.getMessage().startswith(_EXPECTED))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    is_debug = level == "debug"
    for name in ("kopf", "aiohttp", "asyncio", "kubernetes"):
        logging.getLogger(name).setLevel(logging.DEBUG if is_debug else logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _told


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The end by a bug is a line like any other."""
    logging.getLogger(__name__).critical("ended by a bug", exc_info=(kind, error, trace))
