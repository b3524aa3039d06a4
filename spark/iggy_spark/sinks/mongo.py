"""Documents in a collection of MongoDB, by bulk writes.

What makes it exactly once: a document's id is its message's place in the topic, so that what is
written again is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from iggy_spark import blocks, schema
from iggy_spark.errors import OptionError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.retry import Retry
from iggy_spark.sinks import mongo_server
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from iggy_spark.sinks.documents import field_values
from iggy_spark.sinks.mongo_bulk import Bulk
from iggy_spark.sinks.mongo_documents import ID, INCARNATION, BsonDocuments, Value, encoded
from iggy_spark.sinks.mongo_server import Document
from iggy_spark.sinks.rows import METADATA, table_fields
from iggy_spark.sinks.web import checked
from iggy_spark.sinks.web_chunks import Refused

UNAUTHORIZED: Final = 13
NO_PLAIN_COLLECTION: Final = ("view", "timeseries")
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
        and messages of its id from other partitions.
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
    ) -> Bulk:
        known = portion.messages  # dead letters on their way back have other places than ours
        offsets: list[int] = portion.rows.column("iggy_offset").to_pylist()
        ids: Sequence[Value]
        own: dict[str, Value] = {}
        if self._settings.id_field is None:
            ids = [f"{known.incarnation}-{known.partition}-{offset}" for offset in offsets]
        else:
            ids = field_values(self._payload, self._settings.id_field)(portion.rows)
            own = {INCARNATION: known.incarnation}
        bulk = Bulk(target, self._settings, self._retry, known, offsets, ids)
        for row, (id_, fields) in enumerate(zip(ids, documents.of(portion.rows), strict=True)):
            fields.update(own)
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
