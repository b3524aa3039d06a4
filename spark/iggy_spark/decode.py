"""Payloads → declared columns, inside the task that read them.

A payload that does not fit is never dropped: the caller gets its row and the reason. The rule for
JSON: one object per payload, by the JSON standard; a declared field must have its declared type and
no other is converted to it (no number from text, no text from an object, 1.0 is not an INT; an
integer is a DOUBLE); a missing field and null are null, and refused where the schema says NOT NULL;
fields that are not declared are ignored. Times are RFC 3339 text, UTC if they name no offset.
Without a schema the value is the document itself.

Transforms run on the object that was read, in their order, before it is put into columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from iggy_spark import payload as declared
from iggy_spark import schema
from iggy_spark.arrow import ERROR
from iggy_spark.formats import json
from iggy_spark.formats.base import Unreadable
from iggy_spark.messages import Messages
from iggy_spark.transforms.base import At, Document, Step, TransformError
from iggy_spark.typed import Columns, Misfit
from iggy_spark.worker_memory import without_collections


@dataclass(frozen=True, slots=True)
class Rejected:
    """A payload that does not fit: its row in the batch, what kind of fault, and the reason."""

    row: int
    kind: str  # such as MalformedJson, SchemaMismatch, TransformError
    message: str
    stage: str = "decode"  # or transform
    transform: int | None = None  # which one, from 0; None unless the stage is transform


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values of the good rows in order, the numbers of those rows, and the rest with reasons.

    Good, rejected and filtered together are all rows of the batch.
    """

    values: pa.Array
    good_rows: pa.Array | None  # None: every row is good
    rejected: tuple[Rejected, ...]
    filtered: int = 0  # messages that a transform dropped


class Decoder(Protocol):
    """Turns a batch of payloads into values."""

    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Decode every payload that can be. `messages` are those that the payloads belong to."""


def build(payload: declared.Payload) -> Decoder | None:
    """The decoder of a payload; None for raw.

    Raises:
        OptionError: what the declaration names, such as the key of a mask, is not here.
    """
    if payload.format == "raw":
        return None
    if payload.format == "text":
        return TextDecoder()
    steps = declared.steps(payload)
    if payload.format != "json":
        read = declared.form(payload).read
        return ObjectDecoder(_as_json(read) if steps else read, steps, payload.fields)
    if steps:
        return ObjectDecoder(json.read, steps, payload.fields)
    return JsonDecoder(payload.fields) if payload.fields else DocumentDecoder()


def aligned_columns(
    decoded: Decoded, count: int, *, skip: bool = False
) -> tuple[pa.Array | None, pa.Array, pa.Array]:
    """Rows, and their columns `value` and `error`, of which one is null in each.

    The rows are the messages that have one, None if all do: a filtered message has none, nor has a
    rejected one if those are to be skipped.
    """
    if decoded.good_rows is None:
        return None, decoded.values, pa.nulls(count, ERROR)
    position = np.full(count, -1, dtype=np.int64)
    position[decoded.good_rows.to_numpy()] = np.arange(len(decoded.values))
    has_row = position >= 0
    errors: list[dict[str, str] | None] = [None] * count
    for bad in () if skip else decoded.rejected:
        has_row[bad.row] = True
        errors[bad.row] = {"stage": bad.stage, "class": bad.kind, "message": bad.message}
    values = decoded.values.take(pa.array(position, mask=position < 0))
    if has_row.all():
        return None, values, pa.array(errors, ERROR)
    rows = pa.array(np.flatnonzero(has_row))
    return rows, values.take(rows), pa.array(errors, ERROR).take(rows)


def _good_rows(count: int, numbers: Sequence[int]) -> pa.Array | None:
    return None if len(numbers) == count else pa.array(numbers, pa.int64())


def _views(payloads: pa.Array) -> list[memoryview]:
    """One view per payload, without copies. The array has no nulls and starts at its buffers."""
    _, ends_buffer, data_buffer = payloads.buffers()
    ends = np.frombuffer(ends_buffer, dtype=np.int32)[: len(payloads) + 1].tolist()
    data = memoryview(data_buffer) if data_buffer is not None else memoryview(b"")
    return [data[at:end] for at, end in itertools.pairwise(ends)]


class TextDecoder:
    """UTF-8 text."""

    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Check all payloads at once; look at single ones only when some are not UTF-8."""
        try:
            return Decoded(payloads.cast(pa.string()), None, ())
        except pa.ArrowInvalid:
            pass
        rejected, numbers = [], []
        for row, view in enumerate(_views(payloads)):
            try:
                str(view, "utf-8")
                numbers.append(row)
            except UnicodeDecodeError as error:
                rejected.append(Rejected(row, "MalformedText", f"not UTF-8: {error.reason}"))
        good = pa.array(numbers, pa.int64())
        return Decoded(payloads.take(good).cast(pa.string()), good, tuple(rejected))


class JsonDecoder:
    """JSON objects with a declared schema."""

    def __init__(self, fields: tuple[schema.Field, ...]) -> None:
        """`fields` are the columns of the value."""
        self._columns = Columns(fields)
        self._decoder = msgspec.json.Decoder(self._columns.row)

    @without_collections()
    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Decode payload by payload: each is a document of its own."""
        rows: list[Any] = []
        numbers: list[int] = []
        rejected: list[Rejected] = []
        decode = self._decoder.decode
        for row, view in enumerate(_views(payloads)):
            try:
                rows.append(decode(view))
                numbers.append(row)
            except msgspec.ValidationError as error:
                rejected.append(Rejected(row, "SchemaMismatch", str(error)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                rejected.append(Rejected(row, "MalformedJson", str(error)))
        return _into_columns(self._columns, rows, numbers, rejected, len(payloads))


def _into_columns(
    columns: Columns,
    rows: list[Any],
    numbers: list[int],
    rejected: list[Rejected],
    count: int,
    filtered: int = 0,
) -> Decoded:
    """The rows as values; those with a value that does not fit its column join `rejected`."""
    values = columns.array(rows)
    if values is None:
        kept: list[tuple[Any, int]] = []
        for row, number in zip(rows, numbers, strict=True):
            try:
                columns.check(row)
                kept.append((row, number))
            except Misfit as error:
                rejected.append(Rejected(number, "SchemaMismatch", str(error)))
        numbers = [number for _, number in kept]
        values = columns.array([row for row, _ in kept])
        rejected.sort(key=lambda bad: bad.row)
    assert values is not None, "every row was checked"
    return Decoded(values, _good_rows(count, numbers), tuple(rejected), filtered)


class DocumentDecoder:
    """JSON objects without a schema: checked, and kept as they are."""

    @without_collections()
    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Values are the payloads as text."""
        numbers: list[int] = []
        rejected: list[Rejected] = []
        for row, view in enumerate(_views(payloads)):
            try:
                json.read(view)
                numbers.append(row)
            except Unreadable as error:
                rejected.append(Rejected(row, error.kind, str(error)))
        good = _good_rows(len(payloads), numbers)
        chosen = payloads if good is None else payloads.take(good)
        return Decoded(chosen.cast(pa.string()), good, tuple(rejected))


class ObjectDecoder:
    """Payloads that are read as objects, transformed, and put into columns or made JSON again."""

    def __init__(
        self,
        read: Callable[[memoryview], Document],
        steps: Sequence[Step],
        fields: tuple[schema.Field, ...],
    ) -> None:
        """`read` raises Unreadable. Without `fields` the value is the document as JSON."""
        self._read = read
        self._steps = tuple(steps)
        self._columns = Columns(fields) if fields else None
        # JSON's keys are texts. Without transforms an object has the columns' own types.
        self._as_json = bool(steps)

    @without_collections()
    def decode(self, payloads: pa.Array, messages: Messages) -> Decoded:
        """Decode payload by payload: each is a document of its own."""
        rows: list[Any] = []
        numbers: list[int] = []
        rejected: list[Rejected] = []
        filtered = 0
        at = At(messages)
        for row, view in enumerate(_views(payloads)):
            at.row = row
            try:
                found = self._row(view, at)
            except _Reject as reject:
                rejected.append(reject.rejected)
                continue
            if found is None:
                filtered += 1
            else:
                rows.append(found)
                numbers.append(row)
        count = len(payloads)
        if self._columns is not None:
            return _into_columns(self._columns, rows, numbers, rejected, count, filtered)
        values = pa.array(rows, pa.binary()).cast(pa.string())
        return Decoded(values, _good_rows(count, numbers), tuple(rejected), filtered)

    def _row(self, view: memoryview, at: At) -> Any:
        """The row of one payload; None if a transform drops the message."""
        try:
            document = self._transformed(self._read(view), at)
        except Unreadable as error:
            raise _Reject(Rejected(at.row, error.kind, str(error))) from error
        if document is None:
            return None
        try:
            if self._columns is None:
                return json.encode(document)
            return msgspec.convert(document, self._columns.row, str_keys=self._as_json)
        except (msgspec.ValidationError, RecursionError) as error:
            raise _Reject(Rejected(at.row, "SchemaMismatch", str(error))) from error

    def _transformed(self, document: Document, at: At) -> Document | None:
        at.step = 0
        left: Document | None = document
        try:
            for step in self._steps:
                if left is None:
                    break
                left = step(left, at)
                at.step += 1
        except (TransformError, RecursionError) as error:
            reject = Rejected(at.row, "TransformError", str(error), "transform", at.step)
            raise _Reject(reject) from error
        return left


def _as_json(read: Callable[[memoryview], Document]) -> Callable[[memoryview], Document]:
    """The objects as JSON has them: times, dates and bytes are texts to transforms."""

    def read_json(payload: memoryview) -> Document:
        document: Document = msgspec.to_builtins(
            read(payload), builtin_types=(Decimal,), str_keys=True
        )
        return document

    return read_json


class _Reject(Exception):
    """A message that is set aside."""

    def __init__(self, rejected: Rejected) -> None:
        self.rejected = rejected
