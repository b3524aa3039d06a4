"""Documents in an index of Elasticsearch or OpenSearch, by the bulk API.

What makes it exactly once: a document's id is its message's place in the topic, so that what is
written again is the same document. A bulk is judged document by document, by status alone: what the
target has no room for is sent again, and nothing else; what it refuses for good is told to the
task, with the target's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.pylists import values_of
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.documents import Documents, field_values, refuse_raw
from iggy_spark.sinks.elasticsearch_index import IndexName
from iggy_spark.sinks.rows import METADATA, table_fields
from iggy_spark.sinks.web import NOT_FOUND, SUCCESS, TOO_LARGE, Answer, Place, Web, checked
from iggy_spark.sinks.web_chunks import Refused, runs, search
from iggy_spark.sinks.web_login import FORBIDDEN, UNAUTHORIZED, Denied, FileLogin, is_transient

BULK_BYTES_MAX: Final = 10_000_000
BULK_ROWS_MAX: Final = 5_000
ID_BYTES_MAX: Final = 512  # of Elasticsearch and OpenSearch
BAD_REQUEST: Final = 400
CONFLICT: Final = 409
# Of the reply only what is judged; the place of an item in it is the place in the request.
BULK_PATH: Final = "/_bulk?filter_path=errors,items.*.status,items.*.error"
NDJSON: Final = {"Content-Type": "application/x-ndjson"}
_ID_TYPES = {"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT"}
_LOGIN_FILES = ("apiKey", "username", "password")


class ElasticsearchSink:
    """Writes ranges by bulks, one after the other, so that the order of a partition is kept."""

    keeps_place = False

    def __init__(self, settings: blocks.Elasticsearch, payload: Payload, *, retry: Retry) -> None:
        """Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        refuse_raw(payload, target="Elasticsearch")
        _check_id(settings, payload)
        self._settings, self._payload, self._retry = settings, payload, retry
        self._index = IndexName("elasticsearch.index", settings.index)
        self._place = Place("elasticsearch", tuple(settings.urls), ca_path=settings.ca_path)

    @property
    def exactly_once(self) -> bool:
        """With ids of our own. With those of a field a message that is repeated replaces itself,
        and one that has the same id; who is last is not ours to say.
        """
        return self._settings.id_from == "Offset"

    def check(self) -> None:
        """Ask for the version, and whether the index is one that can only grow.

        Raises:
            SinkError: no address answers.
            OptionError: wrong login, or `opType` does not go with a data stream.
        """
        with self._web() as web:
            checked(lambda: self._check(web))

    def _check(self, web: Web) -> None:
        try:
            answer = web.send("GET", "/")
        except Denied as error:
            if error.status == UNAUTHORIZED:
                raise
            return  # a login that may write and no more
        if not answer.is_success:
            raise SinkError(
                f"elasticsearch.urls: {answer.where} answers {answer.status}: {answer.text}"
            )
        if self._settings.op_type == "Index" and _is_data_stream(web, self._settings.index):
            raise OptionError(
                f"elasticsearch.opType: {self._settings.index} is a data stream, which takes "
                "Create only"
            )

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Nothing is kept that could be told."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Send all documents; return when the target has them.

        Raises:
            SinkError: the target does not take them for as long as `errors.retry` says, or the
                index is not there, or this login may not write to it.
        """
        documents = Documents(self._payload)
        rows = size_bytes = 0
        with self._web(first=wanted.partition) as web:
            for portion in portions:
                bulk = self._bulk(web, portion, documents)
                refusals = sorted(bulk.send(), key=lambda bad: bad.offset)
                task.refuse(portion, refusals)
                rows += portion.rows.num_rows - len(refusals)
                size_bytes += sum(map(len, bulk.lines))
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _bulk(self, web: Web, portion: Portion, documents: Documents) -> _Bulk:
        rows = portion.rows
        offsets = values_of(rows.column("iggy_offset"))
        times = values_of(rows.column("iggy_timestamp").cast(pa.int64()))
        ids = self._ids(portion, offsets)
        action = self._settings.op_type.lower()
        heads = _Heads(action, self._index)
        lines = [
            heads.of(time, id_) + document + b"\n"
            for time, id_, document in zip(times, ids, documents.of(rows), strict=True)
        ]
        is_own = self._settings.id_from == "Field"
        return _Bulk(
            web, self._retry, self._place.name, action, lines, offsets, ids if is_own else None
        )

    def _ids(self, portion: Portion, offsets: Sequence[int]) -> Sequence[str | int | None]:
        if self._settings.id_from == "Offset":
            known = portion.messages  # dead letters on their way back have other places than ours
            return [f"{known.incarnation}-{known.partition}-{offset}" for offset in offsets]
        if self._settings.id_field is None:
            return [None] * len(offsets)
        return field_values(self._payload, self._settings.id_field)(portion.rows)

    def _web(self, *, first: int = 0) -> Web:
        login = FileLogin("elasticsearch", self._settings.credentials_path, _LOGIN_FILES)
        return Web(self._place, login, first=first)

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what the target has confirmed is there."""

    def close(self) -> None:
        """Nothing is open between tasks."""


def _check_id(settings: blocks.Elasticsearch, payload: Payload) -> None:
    name = settings.id_field
    if (name is not None) != (settings.id_from == "Field"):
        raise OptionError("elasticsearch.idField: goes with idFrom: Field, which needs it")
    if name is None or payload.is_document:
        return
    known = {
        item.name: schema.to_ddl(item.type)
        for item in table_fields(payload)
        if item not in METADATA
    }
    if known.get(name) not in _ID_TYPES:
        raise OptionError(
            f"elasticsearch.idField: {name!r} must be a column of payload.schema with one of the "
            f"types {', '.join(sorted(_ID_TYPES))}"
        )


class _Streams(msgspec.Struct, frozen=True):
    data_streams: list[Any] = []


def _is_data_stream(web: Web, index: str) -> bool:
    """Whether the index is a data stream already. Who may not ask finds out when writing."""
    if "{" in index:
        return False
    try:
        answer = web.send("GET", f"/_data_stream/{index}")
    except Denied:
        return False
    return answer.is_success and bool(answer.read(_Streams).data_streams)


class _Heads:
    """The lines in front of documents: what to do, in which index, under which id."""

    def __init__(self, action: str, index: IndexName) -> None:
        self._action, self._index = action, index

    def of(self, timestamp_us: int, id_: str | int | None) -> bytes:
        place: dict[str, str] = {"_index": self._index.of(timestamp_us)}
        if id_ is not None:
            place["_id"] = str(id_)
        return msgspec.json.encode({self._action: place}) + b"\n"


class _Item(msgspec.Struct, frozen=True):
    """What became of one document."""

    status: int
    error: Any = None


class _Reply(msgspec.Struct, frozen=True):
    """The answer to a bulk."""

    errors: bool
    items: list[dict[str, _Item]] = []


@dataclass(slots=True)
class _Bulk:
    """The documents of a portion on their way."""

    web: Web
    retry: Retry
    target: str  # for errors
    action: str
    lines: list[bytes]
    offsets: Sequence[int]
    keys: Sequence[str | int | None] | None  # ids that several messages may share
    _refused: dict[int, Refused] = field(default_factory=dict)  # row → why

    def send(self) -> Iterator[Refusal]:
        """Send all; the refusals, when everything else is there."""
        wrong = self._without_id()
        rows = [row for row in range(len(self.lines)) if row not in wrong]
        self._refused.update(wrong)
        sizes = [len(self.lines[row]) for row in rows]
        for run in runs(sizes, bytes_max=BULK_BYTES_MAX, rows_max=BULK_ROWS_MAX):
            for at, reason in search(run, lambda part: self._part(rows[part[0] : part[1]])):
                self._refused[rows[at]] = reason
        for row, reason in self._refused.items():
            yield Refusal(self.offsets[row], "write", reason.kind, reason.message)

    def _without_id(self) -> dict[int, Refused]:
        if self.keys is None:
            return {}
        missing = Refused("MissingId", "the field idField is missing, or no text and no number")
        long = Refused("LongId", f"the id is longer than {ID_BYTES_MAX} bytes")
        return {
            row: missing if key is None or key == "" else long
            for row, key in enumerate(self.keys)
            if key is None or not 0 < len(str(key).encode()) <= ID_BYTES_MAX
        }

    def _part(self, rows: list[int]) -> Refused | None:
        """One bulk, until each document is written or refused."""
        waiting = rows

        def work() -> Refused | None:
            nonlocal waiting
            body = b"".join(self.lines[row] for row in waiting)
            answer = self.web.send("POST", BULK_PATH, body=body, headers=NDJSON)
            if not answer.is_success:
                return _refused_bulk(answer)
            waiting, reason = self._judge(answer, waiting)
            if waiting:
                raise TransientError(f"{answer.where} puts off {len(waiting)} documents: {reason}")
            return None

        return self.retry.call(work, what=self.target)

    def _judge(self, answer: Answer, sent: list[int]) -> tuple[list[int], str]:
        """The rows that must be sent again, and why."""
        reply = answer.read(_Reply)
        if not reply.errors:
            return [], ""
        if len(reply.items) != len(sent):
            raise TransientError(
                f"{answer.where} tells of {len(reply.items)} documents, {len(sent)} were sent"
            )
        again: list[int] = []
        reason = ""
        later: set[str | int | None] = set()  # ids of documents that are sent again
        for row, named in zip(sent, reply.items, strict=True):
            (item,) = named.values()
            key = None if self.keys is None else self.keys[row]
            if _is_put_off(item.status, self.action):
                again.append(row)
                later.add(key)
                reason = reason or _words(item)
            elif _is_done(item.status, self.action):
                # A newer document must stay the last one of its id.
                if self.keys is not None and self.action == "index" and key in later:
                    again.append(row)
            else:
                self._refused[row] = _refused_item(answer, item)
        return again, reason


def _is_done(status: int, action: str) -> bool:
    """409 on create: the document is there, perhaps by a bulk whose answer was lost."""
    return status in SUCCESS or (status == CONFLICT and action == "create")


def _is_put_off(status: int, action: str) -> bool:
    """No room, no shard, or another writer was quicker."""
    return is_transient(status) or (status == CONFLICT and action != "create")


def _refused_item(answer: Answer, item: _Item) -> Refused:
    """Raises SinkError where no document is at fault: no index, or one that may not be written."""
    error = item.error if isinstance(item.error, dict) else {}
    if item.status in (UNAUTHORIZED, FORBIDDEN, NOT_FOUND):
        raise SinkError(
            f"elasticsearch.index: {answer.where} answers {item.status} for a document: "
            f"{_words(item)}: make the index, or let this login write to it"
        )
    return Refused(str(error.get("type") or f"Status{item.status}"), _words(item))


def _words(item: _Item) -> str:
    """The target's own words, with the cause that it names."""
    if not isinstance(item.error, dict):
        return f"{item.status} {item.error or ''}".strip()
    cause = item.error.get("caused_by")
    parts = [item.error.get("type"), item.error.get("reason")]
    if isinstance(cause, dict):
        parts.append(cause.get("reason"))
    return f"{item.status} " + ": ".join(str(part) for part in parts if part)


def _refused_bulk(answer: Answer) -> Refused:
    """A bulk that was refused as a whole: one of its documents is at fault, or its size."""
    if answer.status == TOO_LARGE:
        return Refused("TooLarge", f"{answer.status} {answer.text}", by_size=True)
    if answer.status == BAD_REQUEST:
        return Refused("BadRequest", f"{answer.status} {answer.text}")
    raise SinkError(f"elasticsearch.urls: {answer.where} answers {answer.status}: {answer.text}")
