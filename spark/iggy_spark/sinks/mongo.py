"""Documents in a collection of MongoDB, by bulk writes.

What makes it exactly once: a document's id is its message's place in the topic, so that what is
written again is there already. A bulk is judged document by document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import mongo_server
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.documents import field_values
from iggy_spark.sinks.mongo_documents import ID, BsonDocuments, Value, encoded
from iggy_spark.sinks.mongo_server import Document
from iggy_spark.sinks.rows import METADATA, table_fields
from iggy_spark.sinks.web import checked
from iggy_spark.sinks.web_chunks import Refused, runs

BULK_BYTES_MAX: Final = 16_000_000
BULK_ROWS_MAX: Final = 5_000
DUPLICATE: Final = frozenset({11000, 11001, 12582})
UNAUTHORIZED: Final = 13
NO_PLAIN_COLLECTION: Final = ("view", "timeseries")
_NAMES: Final = {
    11000: "DuplicateKey",
    121: "DocumentValidationFailure",
    10334: "BSONObjectTooLarge",
}
_ID_TYPES = {"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT"}


class MongoSink:
    """Writes ranges by bulks, one after the other."""

    keeps_place = False

    def __init__(self, settings: blocks.Mongo, payload: Payload, *, retry: Retry) -> None:
        """Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        if "@" in mongo_server.shown(settings):
            raise OptionError("mongo.url: a login stands in it; give it with credentialsPath")
        _check_id(settings, payload)
        self._settings, self._payload, self._retry = settings, payload, retry

    @property
    def exactly_once(self) -> bool:
        """With ids of our own. With those of a field a message that is repeated replaces itself,
        and others of its id, until they follow.
        """
        return self._settings.id_from == "Offset"

    def check(self) -> None:
        """Ask for the collection, which is made by the first write where there is none.

        Raises:
            SinkError: no server answers.
            OptionError: wrong login; it is a view, or one of time series, whose ids are not unique.
        """
        settings = self._settings
        kind = checked(lambda: mongo_server.called(settings, self._kind))
        if kind in NO_PLAIN_COLLECTION:
            raise OptionError(
                f"mongo.collection: {settings.database}.{settings.collection} is a {kind}: name a "
                "plain collection"
            )

    def _kind(self) -> str | None:
        """The type of the collection that is there; None: there is none, or it cannot be seen."""
        with mongo_server.connect(self._settings) as client:
            mongo_server.collection_of(client, self._settings)
            client.admin.command("ping")
            wanted = {"name": self._settings.collection}
            try:
                found = list(client[self._settings.database].list_collections(filter=wanted))
            except OperationFailure as error:
                if error.code == UNAUTHORIZED:  # a login that may write and no more
                    return None
                raise
        return str(found[0].get("type", "collection")) if found else None

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Nothing is kept that could be told."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Write all documents; return when most of the servers have them.

        Raises:
            SinkError: they are not taken for as long as `errors.retry` says, or not of this login.
        """
        documents = BsonDocuments(self._payload)
        rows = size_bytes = 0
        with mongo_server.connect(self._settings) as client:
            target = mongo_server.collection_of(client, self._settings)
            for portion in portions:
                bulk = self._bulk(target, portion, documents)
                refusals = bulk.send()
                task.refuse(portion, refusals)
                rows += portion.rows.num_rows - len(refusals)
                size_bytes += sum(len(found.raw) for found in bulk.documents.values())
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _bulk(
        self,
        target: Collection[Document],
        portion: Portion,
        documents: BsonDocuments,
    ) -> _Bulk:
        offsets: list[int] = portion.rows.column("iggy_offset").to_pylist()
        bulk = _Bulk(target, self._settings, self._retry, offsets)
        ids: Sequence[Value]
        if self._settings.id_field is None:
            known = portion.messages  # dead letters on their way back have other places than ours
            ids = [f"{known.incarnation}-{known.partition}-{offset}" for offset in offsets]
        else:
            ids = field_values(self._payload, self._settings.id_field)(portion.rows)
        for row, (id_, fields) in enumerate(zip(ids, documents.of(portion.rows), strict=True)):
            found = _made(id_, fields, is_own=self._settings.id_field is not None)
            if isinstance(found, Refused):
                bulk.refused[row] = found
            else:
                bulk.documents[row] = found
        return bulk

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what the server has confirmed is there."""

    def close(self) -> None:
        """Nothing is open between tasks."""


def _check_id(settings: blocks.Mongo, payload: Payload) -> None:
    name = settings.id_field
    if (name is not None) != (settings.id_from == "Field"):
        raise OptionError("mongo.idField: goes with idFrom: Field, which needs it")
    if payload.is_document:
        return
    known = {
        item.name: schema.to_ddl(item.type)
        for item in table_fields(payload)
        if item not in METADATA
    }
    if ID in known and name != ID:
        raise OptionError(f"mongo.idField: the payload has a field {ID}: name it, or rename it")
    if name is not None and known.get(name) not in _ID_TYPES:
        raise OptionError(
            f"mongo.idField: {name!r} must be a column of payload.schema with one of the types "
            f"{', '.join(sorted(_ID_TYPES))}"
        )


def _made(id_: Value, fields: dict[str, Value], *, is_own: bool) -> RawBSONDocument | Refused:
    if is_own and (id_ is None or id_ == ""):
        return Refused("MissingId", "the field idField is missing, or no text and no number")
    if ID in fields and fields[ID] != id_:
        return Refused("OwnId", f"the message has a field {ID} of its own: name it as idField")
    return encoded(id_, fields)


@dataclass(slots=True)
class _Bulk:
    """The documents of a portion on their way."""

    target: Collection[Document]
    settings: blocks.Mongo
    retry: Retry
    offsets: list[int]
    documents: dict[int, RawBSONDocument] = field(default_factory=dict)  # by row
    refused: dict[int, Refused] = field(default_factory=dict)  # by row

    def send(self) -> list[Refusal]:
        """Write all; the refusals, when everything else is there."""
        rows = list(self.documents)
        sizes = [len(found.raw) for found in self.documents.values()]
        for first, end in runs(sizes, bytes_max=BULK_BYTES_MAX, rows_max=BULK_ROWS_MAX):
            self._part(rows[first:end])
        return [
            Refusal(self.offsets[row], "write", reason.kind, reason.message)
            for row, reason in sorted(self.refused.items())
        ]

    def _part(self, rows: list[int]) -> None:
        """One bulk, until each document is written or refused."""
        waiting = rows

        def work() -> None:
            nonlocal waiting
            while waiting:
                waiting, reason = self._once(waiting)
                if reason:
                    raise TransientError(f"{mongo_server.shown(self.settings)}: {reason}")

        self.retry.call(work, what="mongo")

    def _once(self, rows: list[int]) -> tuple[list[int], str]:
        """Send; the rows that must be sent again, and why, if there was trouble."""
        operations = [self._operation(self.documents[row]) for row in rows]
        try:
            mongo_server.called(
                self.settings,
                lambda: self.target.bulk_write(operations, ordered=not self._is_ours),
            )
        except BulkWriteError as error:
            return self._judge(error, rows)
        return [], ""

    @property
    def _is_ours(self) -> bool:
        return self.settings.id_field is None

    def _operation(self, document: RawBSONDocument) -> InsertOne[Any] | ReplaceOne[Any]:
        if self._is_ours:
            return InsertOne(document)
        return ReplaceOne({ID: document[ID]}, document, upsert=True)

    def _judge(self, error: BulkWriteError, rows: list[int]) -> tuple[list[int], str]:
        again: list[int] = []
        reason = ""
        last = len(rows)
        for found in error.details.get("writeErrors", []):
            row, code = rows[found["index"]], found.get("code")
            last = found["index"] + 1
            is_there = code in DUPLICATE and self._is_there(found, row)
            if mongo_server.is_transient(code) or (is_there and not self._is_ours):
                again.append(row)
                reason = reason or _words(found)
            elif not is_there:
                self.refused[row] = Refused(_NAMES.get(code, f"Code{code}"), _words(found))
        if not self._is_ours:  # in order: what stands behind the first error was not tried
            again += rows[last:]
        concerns = error.details.get("writeConcernErrors", [])
        if concerns:  # perhaps on one server only: what is there already is no error
            return _without(rows, self.refused), _words(concerns[0])
        return again, reason

    def _is_there(self, error: Mapping[str, Any], row: int) -> bool:
        """Whether a duplicate is one of the id, and not of a unique index of somebody's own."""
        pattern = error.get("keyPattern")
        if pattern is not None:
            return list(pattern) == [ID]
        if " index: " in str(error.get("errmsg")):
            return "index: _id_ " in f"{error['errmsg']} "
        known = {ID: self.documents[row][ID]}  # it does not say: some that speak the protocol
        found = mongo_server.called(self.settings, lambda: self.target.find_one(known, {ID: 1}))
        return found is not None


def _without(rows: list[int], refused: Mapping[int, Refused]) -> list[int]:
    """The rows that are not refused."""
    return [row for row in rows if row not in refused]


def _words(error: Mapping[str, Any]) -> str:
    """The server's own words; of a validator with what it misses."""
    parts = [
        str(error.get("code", "")),
        str(error.get("errmsg", "")),
        str(error.get("errInfo") or ""),
    ]
    return " ".join(" ".join(parts).split())[: mongo_server.TEXT_CHARS_MAX]
