"""The documents of a portion on their way into a collection, by bulk writes that are judged
document by document.

Under ids of our own they are inserted: an id that is there was written before.

Under ids of a field they replace the document of their id, unless that has a later message of the
same partition. A document remembers its place for that. The filter of a replacement names a
document that may go; where one of this id must stay nothing matches, `upsert` tries to insert, and
the answer is a duplicate (11000).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from iggy_spark import blocks
from iggy_spark.messages import Messages
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import mongo_server
from iggy_spark.sinks.base import Refusal
from iggy_spark.sinks.mongo_documents import ID, INCARNATION, Value
from iggy_spark.sinks.mongo_server import Document
from iggy_spark.sinks.rows import METADATA
from iggy_spark.sinks.web_chunks import Refused, runs

BULK_BYTES_MAX: Final = 16_000_000
BULK_ROWS_MAX: Final = 5_000
DUPLICATE: Final = frozenset({11000, 11001, 12582})
PARTITION, OFFSET, _ = (item.name for item in METADATA)
_NAMES: Final = {
    11000: "DuplicateKey",
    121: "DocumentValidationFailure",
    10334: "BSONObjectTooLarge",
}


@dataclass(slots=True)
class Bulk:
    """One portion: `offsets`, `ids` and what is made of each row."""

    target: Collection[Document]
    settings: blocks.Mongo
    retry: Retry
    messages: Messages  # the partition and its incarnation
    offsets: Sequence[int]
    ids: Sequence[Value]
    documents: dict[int, RawBSONDocument] = field(default_factory=dict)  # by row
    refused: dict[int, Refused] = field(default_factory=dict)  # by row
    _earlier: dict[int, int] = field(default_factory=dict)  # row → the one before it of its id

    def send(self) -> list[Refusal]:
        """Write all; the refusals, when everything else is there.

        Raises:
            SinkError: they are not taken for as long as the retries last, or not of this login.
        """
        rows = list(self.documents) if self._is_ours else self._last_of_ids()
        sizes = [len(self.documents[row].raw) for row in rows]
        for first, end in runs(sizes, bytes_max=BULK_BYTES_MAX, rows_max=BULK_ROWS_MAX):
            self._part(rows[first:end])
        return [
            Refusal(self.offsets[row], "write", reason.kind, reason.message)
            for row, reason in sorted(self.refused.items())
        ]

    @property
    def _is_ours(self) -> bool:
        return self.settings.id_field is None

    def _last_of_ids(self) -> list[int]:
        """The rows that nothing in this portion replaces, so that order does not matter."""
        last: dict[Value, int] = {}
        # Dead letters on their way back come in any order.
        for row in sorted(self.documents, key=self.offsets.__getitem__):
            if (before := last.get(self.ids[row])) is not None:
                self._earlier[row] = before
            last[self.ids[row]] = row
        return list(last.values())

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
        """Send; the rows that must be sent next, and why, if there was trouble."""
        operations = [self._operation(row) for row in rows]
        try:
            mongo_server.called(
                self.settings, lambda: self.target.bulk_write(operations, ordered=False)
            )
        except BulkWriteError as error:
            return self._judge(error, rows)
        return [], ""

    def _operation(self, row: int) -> InsertOne[Any] | ReplaceOne[Any]:
        document = self.documents[row]
        if self._is_ours:
            return InsertOne(document)
        may_go = [
            {OFFSET: {"$lte": self.offsets[row]}},
            {PARTITION: {"$ne": self.messages.partition}},  # or there is none
            {INCARNATION: {"$ne": self.messages.incarnation}},
        ]
        return ReplaceOne({ID: self.ids[row], "$or": may_go}, document, upsert=True)

    def _judge(self, error: BulkWriteError, rows: list[int]) -> tuple[list[int], str]:
        again: list[int] = []
        there: list[int] = []
        reason = ""
        for found in error.details.get("writeErrors", []):
            row, code = rows[found["index"]], found.get("code")
            if mongo_server.is_transient(code):
                again.append(row)
                reason = reason or _words(found)
            elif code in DUPLICATE and self._is_there(found, row):
                there.append(row)
            else:
                self.refused[row] = Refused(_NAMES.get(code, f"Code{code}"), _words(found))
                if row in self._earlier:  # which it would have replaced
                    again.append(self._earlier[row])
        if not self._is_ours and (overtaken := self._not_replaced(there)):
            again += overtaken
            reason = reason or "another writer was first"
        concerns = error.details.get("writeConcernErrors", [])
        if concerns:  # perhaps on one server only: what is there already is no error
            kept = [row for row in rows if row not in self.refused]
            return list(dict.fromkeys([*kept, *again])), _words(concerns[0])
        return again, reason

    def _not_replaced(self, rows: list[int]) -> list[int]:
        """Those of the rows whose id does not have a later message: another writer made the
        document between the look at it and the insert.
        """
        if not rows:
            return []
        later = {
            ID: {"$in": [self.ids[row] for row in rows]},
            PARTITION: self.messages.partition,
            INCARNATION: self.messages.incarnation,
        }
        found = mongo_server.called(
            self.settings, lambda: list(self.target.find(later, {OFFSET: 1}))
        )
        offsets = {one[ID]: one[OFFSET] for one in found}
        return [row for row in rows if offsets.get(self.ids[row], -1) <= self.offsets[row]]

    def _is_there(self, error: Mapping[str, Any], row: int) -> bool:
        """Whether a duplicate is one of the id, and not of a unique index of somebody's own."""
        pattern = error.get("keyPattern")
        if pattern is not None:
            return list(pattern) == [ID]
        if " index: " in str(error.get("errmsg")):
            return "index: _id_ " in f"{error['errmsg']} "
        known = {ID: self.ids[row]}  # it does not say: some that speak the protocol
        found = mongo_server.called(self.settings, lambda: self.target.find_one(known, {ID: 1}))
        return found is not None


def _words(error: Mapping[str, Any]) -> str:
    """The server's own words; of a validator with what it misses."""
    parts = [
        str(error.get("code", "")),
        str(error.get("errmsg", "")),
        str(error.get("errInfo") or ""),
    ]
    return " ".join(" ".join(parts).split())[: mongo_server.TEXT_CHARS_MAX]
