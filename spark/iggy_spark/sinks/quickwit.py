"""Documents in an index of Quickwit, by its ingest API. At least once: it knows no ids.

Documents that the index refuses are in the reply, word for word; each holds the place of its
message, so that no two are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.documents import Documents, refuse_raw
from iggy_spark.sinks.web import NOT_FOUND, TOO_LARGE, Answer, Place, Web, checked
from iggy_spark.sinks.web_chunks import Refused, Run, runs, search
from iggy_spark.sinks.web_login import FileLogin

INGEST_BYTES_MAX: Final = 8 << 20
INGEST_ROWS_MAX: Final = 10_000
BAD_REQUEST: Final = 400
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.\-]{2,254}")  # Quickwit: index ids
_INDEX_ID = re.compile(r"""^["']?index_id["']?\s*:\s*["']?([^\s"'#]+)""", re.MULTILINE)
_NDJSON: Final = {"Content-Type": "application/x-ndjson"}


class _Failure(msgspec.Struct, frozen=True):
    """A document that the index refuses, in a detailed reply."""

    document: str
    message: str = ""
    reason: str = ""


class _Reply(msgspec.Struct, frozen=True):
    """The answer to an ingest. Counts are missing while there is nothing to count."""

    num_rejected_docs: int | None = None
    parse_failures: list[_Failure] | None = None


class QuickwitSink:
    """Writes ranges by requests, one after the other."""

    exactly_once = False
    keeps_place = False

    def __init__(self, settings: blocks.Quickwit, payload: Payload, *, retry: Retry) -> None:
        """Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        refuse_raw(payload, target="Quickwit")
        _check(settings)
        self._settings, self._payload, self._retry = settings, payload, retry
        self._place = Place("quickwit", (settings.url,), ca_path=settings.ca_path)

    def check(self) -> None:
        """Ask for the index.

        Raises:
            SinkError: the server does not answer.
            OptionError: wrong login, or there is no index, and no `indexConfig` to make it from.
        """
        with self._web() as web:
            if not checked(lambda: self._has_index(web)) and self._settings.index_config is None:
                raise OptionError(
                    f"quickwit.index: {self._settings.index} does not exist: make it, or give its "
                    "configuration as indexConfig"
                )

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Make the index if it is missing. Nothing is kept that could be told.

        Raises:
            OptionError: the server does not understand `indexConfig`.
            SinkError: it does not answer for as long as `errors.retry` says.
        """
        if self._settings.index_config is not None:
            with self._web() as web:
                self._retry.call(lambda: self._make(web), what=self._place.name)
        return {}

    def _make(self, web: Web) -> None:
        if self._has_index(web):
            return
        config = (self._settings.index_config or "").encode()
        kind = {"Content-Type": "application/yaml"}
        answer = web.send("POST", "/api/v1/indexes", body=config, headers=kind)
        if not answer.is_success and not self._has_index(web):  # or another one was quicker
            raise OptionError(
                f"quickwit.indexConfig: {answer.where} answers {answer.status}: {answer.text}"
            )

    def _has_index(self, web: Web) -> bool:
        answer = web.send("GET", f"/api/v1/indexes/{self._name}")
        if answer.is_success:
            return True
        if answer.status == NOT_FOUND:
            return False
        raise _wrong(answer)

    @property
    def _name(self) -> str:
        return quote(self._settings.index, safe="")

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Send all documents; return when the target has them in its log.

        Raises:
            SinkError: the target does not take them for as long as `errors.retry` says, or it
                refuses some and does not say which.
        """
        documents = Documents(self._payload)
        rows = size_bytes = 0
        with self._web() as web:
            for portion in portions:
                lines = [text + b"\n" for text in documents.of(portion.rows)]
                refused = self._ingest(web, lines)
                offsets = portion.rows.column("iggy_offset").to_pylist()
                refusals = [
                    Refusal(offsets[row], "write", reason.kind, reason.message)
                    for row, reason in sorted(refused.items())
                ]
                task.refuse(portion, refusals)
                rows += len(lines) - len(refusals)
                size_bytes += sum(map(len, lines))
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _ingest(self, web: Web, lines: Sequence[bytes]) -> dict[int, Refused]:
        """Send all lines; the rows that are refused, and why."""
        refused: dict[int, Refused] = {}
        path = f"/api/v1/{self._name}/ingest?commit=auto&detailed_response=true"

        def send(run: Run) -> Refused | None:
            body = b"".join(lines[run[0] : run[1]])

            def work() -> tuple[Refused | None, dict[int, Refused]]:
                answer = web.send("POST", path, body=body, headers=_NDJSON)
                if not answer.is_success:
                    return _refused_request(answer), {}
                return None, _failures(answer, lines, run)

            reason, found = self._retry.call(work, what=self._place.name)
            refused.update(found)
            return reason

        sizes = [len(line) for line in lines]
        for run in runs(sizes, bytes_max=INGEST_BYTES_MAX, rows_max=INGEST_ROWS_MAX):
            refused.update(search(run, send))
        return refused

    def _web(self) -> Web:
        login = FileLogin("quickwit", self._settings.credentials_path, ("token",))
        return Web(self._place, login)

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what the target has confirmed is there."""

    def close(self) -> None:
        """Nothing is open between tasks."""


def _check(settings: blocks.Quickwit) -> None:
    if _NAME.fullmatch(settings.index) is None:
        raise OptionError(
            f"quickwit.index: {settings.index!r} is no name of an index: use letters, digits, "
            "dashes, dots and underscores, at least 3, and begin with a letter"
        )
    if settings.index_config is None:
        return
    found = _INDEX_ID.search(settings.index_config)
    if found is None or found[1] != settings.index:
        raise OptionError(
            f"quickwit.indexConfig: index_id must be {settings.index}, as in quickwit.index"
        )


def _failures(answer: Answer, lines: Sequence[bytes], run: Run) -> dict[int, Refused]:
    reply = answer.read(_Reply)
    failures = reply.parse_failures or []
    if not failures and not reply.num_rejected_docs:
        return {}
    row_of = {lines[row].rstrip(b"\n"): row for row in range(*run)}
    found = {}
    for failure in failures:
        row = row_of.get(failure.document.strip().encode())
        if row is not None:
            found[row] = Refused(failure.reason or "Rejected", failure.message or "no reason given")
    if len(found) < max(len(failures), reply.num_rejected_docs or 0):
        raise SinkError(
            f"quickwit: {answer.where} refuses {reply.num_rejected_docs} documents and does not "
            "say which: correct the index's mapping, or use a Quickwit with detailed responses"
        )
    return found


def _refused_request(answer: Answer) -> Refused:
    if answer.status == TOO_LARGE:
        return Refused("TooLarge", f"{answer.status} {answer.text}", by_size=True)
    if answer.status == BAD_REQUEST:
        return Refused("BadRequest", f"{answer.status} {answer.text}")
    if answer.status == NOT_FOUND:
        # One that has just been made is not known everywhere at once.
        raise TransientError(f"{answer.where} answers {answer.status}: the index is not there")
    raise _wrong(answer)


def _wrong(answer: Answer) -> SinkError:
    return SinkError(f"quickwit.url: {answer.where} answers {answer.status}: {answer.text}")
