"""Messages into another topic of the same broker, with their headers, and where they come from.

A batch that is repeated sends its messages again, with the same ids and to the same partitions. Ids
are a hash of the sink and the message's place. Exactly once where the broker leaves out what the
target has been sent before: it does so if it is told to, and tells nobody whether it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from iggy_spark import blocks
from iggy_spark.connections import Reach
from iggy_spark.dead_letters import letter_id
from iggy_spark.encode import Outgoing
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.job_config import JobConfig
from iggy_spark.login import Login
from iggy_spark.messages import Messages, header_keys
from iggy_spark.offsets import OffsetRange
from iggy_spark.sending import Sender
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.documents import Documents
from iggy_wire.kernel_types import HEADERS_BYTES_MAX, PAYLOAD_BYTES_MAX
from iggy_wire.options import Option, Value, ValueKind, options_bytes

PREFIX: Final = "iggy.origin."


@dataclass(frozen=True, slots=True)
class _Patient:
    """The same way to the broker, tried for another time. See `connections.Reach`."""

    servers: tuple[str, ...]
    login: Login
    retry_timeout_ms: int


class IggySink:
    """Copies messages. Raw and text stay what they are, others are sent as JSON documents."""

    keeps_place = False

    def __init__(self, block: blocks.IggyCopy, config: JobConfig, reach: Reach | None) -> None:
        """`reach` leads to the broker; without it nothing can be sent.

        Raises:
            OptionError: the sink would read what it writes, or what is repeated would go to any
                partition although the broker is to know it again.
        """
        if (block.stream, block.topic) == (config.stream, config.topic):
            raise OptionError(
                f"sink.iggy.topic: {block.stream}/{block.topic} is the topic that the sink reads: "
                "name another"
            )
        self.exactly_once = config.sink.delivery == "ExactlyOnce"
        """Where it is asked for: then the broker is said to deduplicate in the target."""
        if self.exactly_once and block.partitioning != "Same":
            raise OptionError(
                "sink.delivery: ExactlyOnce needs iggy.partitioning: Same, since a partition knows "
                "again only what it was sent itself"
            )
        payload = config.payload
        self._block, self._name, self._reach = block, config.name, reach
        self._patience_ms = round(config.retry_policy.timeout_s * 1000)
        self._column = {"raw": "payload", "text": "value"}.get(payload.format)
        self._documents = Documents(payload, position=False) if self._column is None else None

    def check(self) -> None:
        """Ask for the target topic.

        Raises:
            BrokerRefused: it does not exist, or this user may not see it.
        """
        self._sender().partitions_count(self._block.stream, self._block.topic)

    def _sender(self, patience_ms: int | None = None) -> Sender:
        reach = self._reach
        assert reach is not None, "only the job has a way to the broker"
        if patience_ms is None:
            return Sender(reach)
        return Sender(_Patient(reach.servers, reach.login, patience_ms))

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """A topic does not tell which messages of ours it has."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Send portion by portion; each is acknowledged before the next.

        Raises:
            SinkError: the target has no partition of that number, with partitioning Same.
            BrokerRefused: no permission to send there.
            BrokerUnavailable: the broker is away for longer than `errors.retry` allows.
        """
        sender = self._sender(self._patience_ms)
        rows = size_bytes = 0
        partition = self._partition(sender, wanted.partition)
        for portion in portions:
            payloads = self._payloads(portion.rows)
            fitting = self._fitting(portion, payloads, task)
            if fitting:
                outgoing = self._outgoing(portion, payloads, fitting)
                sender.send(self._block.stream, self._block.topic, outgoing, partitions=partition)
            rows += len(fitting)
            size_bytes += sum(len(payloads[row]) for row in fitting)
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _partition(self, sender: Sender, number: int) -> int | None:
        """Where messages of a partition go; None: the broker chooses."""
        if self._block.partitioning == "Balanced":
            return None
        count = sender.partitions_count(self._block.stream, self._block.topic)
        if number >= count:
            raise SinkError(
                f"iggy.partitioning: Same: partition {number} has none of its number in "
                f"{self._block.stream}/{self._block.topic}, which has {count}: add partitions "
                "there, or use Balanced"
            )
        return number

    def _payloads(self, rows: pa.RecordBatch) -> list[bytes]:
        if self._documents is not None:
            return self._documents.of(rows)
        found: list[bytes] = rows.column(self._column).cast(pa.binary()).to_pylist()
        return found

    def _fitting(self, portion: Portion, payloads: Sequence[bytes], task: Task) -> list[int]:
        """Rows that a message can hold; the others are refused."""
        large = [row for row, data in enumerate(payloads) if len(data) > PAYLOAD_BYTES_MAX]
        if large:
            offsets = portion.rows.column("iggy_offset")
            reason = f"the payload would have more than {PAYLOAD_BYTES_MAX} bytes"
            task.refuse(
                portion,
                [Refusal(offsets[row].as_py(), "write", "TooLarge", reason) for row in large],
            )
        return [row for row in range(len(payloads)) if row not in set(large)]

    def _outgoing(
        self, portion: Portion, payloads: Sequence[bytes], rows: Sequence[int]
    ) -> Outgoing:
        known = portion.messages
        row_of = {offset: row for row, offset in enumerate(known.offsets)}
        offsets = portion.rows.column("iggy_offset").to_pylist()
        places = [(offsets[row], row_of[offsets[row]]) for row in rows]
        ids = [letter_id(self._name, known, offset) for offset, _ in places]
        headers = [headers_of(known, row) for _, row in places]
        kind = pa.large_binary()
        return Outgoing.of(
            pa.array([payloads[row] for row in rows], kind),
            ids=pa.array(ids, kind),
            headers=pa.array(headers, kind),
        )

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what was sent is there."""

    def close(self) -> None:
        """The process's connection serves others, too."""


def headers_of(known: Messages, row: int) -> bytes:
    """The message's own headers, then where it comes from. A copy of a copy keeps its first
    origin, and headers that leave no room for it stay as they are.
    """
    own = known.raw_headers(row)
    if any(key.startswith(PREFIX.encode()) for _, key in header_keys(own)):
        return own
    origin: dict[str, Value] = {
        "stream": known.stream,
        "topic": known.topic,
        "partition": known.partition,
        "offset": known.offsets[row],
        "timestamp": known.timestamps_us[row],
        "id": known.ids[row],
    }
    added = options_bytes(tuple(_option(name, value) for name, value in origin.items()))
    return own + added if len(own) + len(added) <= HEADERS_BYTES_MAX else own


def _option(name: str, value: Value) -> Option:
    kind = ValueKind.UINT64 if isinstance(value, int) else ValueKind.STRING
    return Option.of(PREFIX + name, value, kind)
