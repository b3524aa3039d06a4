"""Logs: one JSON object a line on standard error.

    logger.info("= segment rolled", extra=event("rolled", partition="3/1/0"))

gives `{"ts": "2026-01-31T12:00:00.000Z", "level": "info", "event": "rolled", "shard": 1, "logger":
"...", "message": "= segment rolled", "partition": "3/1/0"}`. The first six are in every line;
`log_events` has all events, and which of them are limited. Secrets never are in a line.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Final, Self, TextIO

from iggy_broker.log_events import EVENTS

TRACE: Final = 5  # below logging.DEBUG: per-request lines
LEVELS: Final = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
TEXT_CHARACTERS_MAX: Final = 4096  # longer texts are cut: a line is for people
TRACE_CHARACTERS_MAX: Final = 16_384  # of a traceback the end is kept
LINES_MAX: Final = 20  # of one limited event and process, in each `WINDOW_S`; others are counted
WINDOW_S: Final = 10.0

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Whoever splits text into lines may split at these, too, and JSON leaves them as they are.
_LINE_ENDS: Final = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x7f\x85\u2028\u2029"}

_storage = logging.getLogger("iggy_broker.storage")


def event(name: str, **fields: object) -> dict[str, object]:
    """For `extra`: which of `EVENTS` a line is about, and its fields."""
    return {"event": name, **fields}


class Note(str):
    """A text for the log, with its event and fields. Where a plain text is wanted, it is one."""

    event: str
    fields: dict[str, object]

    def __new__(cls, name: str, text: str, **fields: object) -> Self:
        """`name` is one of `EVENTS`."""
        made = super().__new__(cls, text)
        made.event, made.fields = name, fields
        return made


def warn(text: str) -> None:
    """Log what storage or metadata met; a `Note` keeps its event and fields."""
    if isinstance(text, Note):
        _storage.warning("! %s", text, extra=event(text.event, **text.fields))
    else:
        _storage.warning("! %s", text, extra=event("storage"))


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
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": _event_of(record),
            "shard": self._shard,
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        more = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        fields |= {name: _cut(value) for name, value in more.items() if value is not None}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)[-TRACE_CHARACTERS_MAX:]
        return json.dumps(fields, default=str, ensure_ascii=False).translate(_LINE_ENDS)


@dataclass(slots=True)
class _Window:
    """The lines of one event since `began_s`."""

    began_s: float
    lines: int = 0
    suppressed: int = 0


class Limiter(logging.Filter):
    """Lets `LINES_MAX` lines of each limited event through in `WINDOW_S`, and counts the others."""

    def __init__(self) -> None:
        """Nothing was logged yet."""
        super().__init__()
        self.suppressed_total = 0
        self._windows: dict[str, _Window] = {}  # as many as there are limited events

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        name = _event_of(record)
        kind = EVENTS.get(name)
        if kind is None or not kind.limited:
            return True
        window = self._windows.get(name)
        if window is None or self._is_over(window, record.created):
            if window is not None and window.suppressed:
                record.suppressed = window.suppressed
            window = self._windows[name] = _Window(record.created)
        window.lines += 1
        if window.lines <= LINES_MAX:
            return True
        window.suppressed += 1
        self.suppressed_total += 1
        return False

    def take_suppressed(self, now_s: float | None = None) -> dict[str, int]:
        """How many lines of each event were not written in windows that are over."""
        now_s = time.time() if now_s is None else now_s
        over = [name for name, one in self._windows.items() if self._is_over(one, now_s)]
        counts = {name: self._windows.pop(name).suppressed for name in over}
        return {name: count for name, count in counts.items() if count}

    @staticmethod
    def _is_over(window: _Window, now_s: float) -> bool:
        return not window.began_s <= now_s < window.began_s + WINDOW_S  # the clock may be set back


class _Handler(logging.StreamHandler[TextIO]):
    """Writes the lines. One that cannot be made is a bug of ours, and is told in a line, too."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- logging's name
        """Tell what went wrong, unless it is the stream itself: then nobody can be told."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _crashed(error, f"a log line cannot be made of {record.msg!r}")


LIMITER: Final = Limiter()


def tell_suppressed() -> None:
    """Log how many lines were not written, for events that have calmed down. Ask now and then."""
    for name, count in LIMITER.take_suppressed().items():
        told = event("suppressed", of=name, count=count)
        _storage.warning("! %d lines about %r were not written", count, name, extra=told)


def set_up(level: str, *, shard: int | None = None, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (standard error). Call it again after a fork."""
    logging.addLevelName(TRACE, "TRACE")
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(shard))
    handler.addFilter(LIMITER)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    logging.logThreads = False  # asked for by nobody, and paid for by every record
    logging.logProcesses = False
    logging.logMultiprocessing = False


def catch_all() -> None:
    """Log what Python itself would print: warnings, and exceptions that nobody caught."""
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda kind, error, trace: _crashed(error, "nobody caught this")
    sys.unraisablehook = lambda found: _crashed(found.exc_value, str(found.err_msg or found.object))
    threading.excepthook = lambda found: _crashed(
        found.exc_value, f"thread {found.thread.name if found.thread else '?'}"
    )


def _crashed(error: BaseException | None, where: str) -> None:
    logging.getLogger("iggy_broker").critical(
        "! %s: %r", where, error, exc_info=error, extra=event("crashed")
    )


def _event_of(record: logging.LogRecord) -> str:
    given = getattr(record, "event", None)
    if isinstance(given, str):
        return given
    return "python_warning" if record.name == "py.warnings" else "library"


def _cut(value: object) -> object:
    return value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
