"""What every source is: a few methods, positions in JSON, and record batches of messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec
import pyarrow as pa

from iggy_spark.errors import OffsetFormatError

ID_BYTES: Final = 16

Position = Mapping[str, Any]
"""How far the other system was read: a JSON object, which Spark keeps in its checkpoint."""

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""Messages, one a row. `id`: the same for the same message, whenever it is read. `key`: messages
of one key go to one partition, null goes anywhere; empty ones count as null. `payload`: at least
one byte, since a message without any does not exist.
"""


class Source(Protocol):
    """A system that messages come from. Made from its settings alone: in the job, in Spark's helper
    that plans batches, and again in every task. So nothing but positions passes between the calls.

    Calls that the system may answer later go through `retry.Retry`; they raise `TransientError`
    within. What is left is `SinkError`, for a system that cannot be read, and `OptionError`.
    """

    def check(self) -> None:
        """Before anything runs: can the system be read? Changes nothing there.

        Raises:
            SinkError: no; the message names the system.
            OptionError: never, with these settings; the message names the field.
        """

    def first(self) -> Position:
        """Where it begins. On the first run, before the first batch: makes what reading needs.

        May be called again after a crash, before any batch was planned: what was made is found.
        """

    def latest(self, start: Position, messages_max: int) -> Position:
        """An end for the next batch, at most about `messages_max` messages beyond `start`; `start`
        itself, if there is nothing new. Asked many times a second when idle.
        """

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """The parts of a batch, a task each: JSON objects, in the order of their messages.

        Parts are read side by side, so messages whose order matters belong into one.
        """

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """In a task: the messages of one part, as SCHEMA has them.

        Read again, a part has the same messages with the same ids in the same order.
        """

    def done(self, end: Position) -> None:
        """Everything before `end` is in the topic, and Spark has it written down: the system may
        forget it. May come several times for the same end, from the job's own process, and never
        while tasks read; the helper may ask for `latest` meanwhile.
        """

    def behind(self, at: Position) -> int | None:
        """How many messages wait beyond `at`, exactly or about; None where nobody can tell."""

    def close(self) -> None:
        """Let go of connections. Whoever uses the source again opens new ones."""


@runtime_checkable
class Freezing(Protocol):
    """A source that goes on without end. One that is not frozen ends when it finds nothing new."""

    def freeze(self) -> None:
        """Before the first `latest` of a run that is to end: from now on `latest` of this object
        goes no further than what is there at this moment.
        """


T = TypeVar("T", bound=msgspec.Struct)


def as_type(position: Position, kind: type[T], source: str) -> T:
    """A position out of a checkpoint, as values; `source` names the type that it is of.

    Raises:
        OffsetFormatError: it is none of this source.
    """
    try:
        return msgspec.convert(dict(position), kind)
    except msgspec.ValidationError as error:
        what = f"the checkpoint holds no position of a source {source}: {error}"
        raise OffsetFormatError(f"{what}: begin with an empty one") from error


def message_id(*words: str | bytes | int) -> bytes:
    """The id of the message that these words name: 16 bytes, the same for the same words.

    Never all zero: brokers take that for "no id" and make one up.
    """
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for word in words:
        # Kind and length keep ("a", "b") and ("ab",), or 1 and "1", apart.
        data = word if isinstance(word, bytes) else str(word).encode()
        digest.update(f"{type(word).__name__} {len(data)} ".encode())
        digest.update(data)
    found = digest.digest()
    return found if any(found) else bytes([*found[:-1], 1])


def record_batch(
    ids: Sequence[bytes], payloads: Sequence[bytes], keys: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    """Messages as SCHEMA has them; `keys` None: without keys."""
    columns = [
        pa.array(ids, SCHEMA.field("id").type),
        pa.array(keys if keys is not None else [None] * len(ids), SCHEMA.field("key").type),
        pa.array(payloads, SCHEMA.field("payload").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
