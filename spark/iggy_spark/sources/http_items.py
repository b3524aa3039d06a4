"""The items of a web service's answer, and what a position of the source Http holds. Pure.

An answer cannot be asked for again: the next one is another. So the items of a batch are part of
the position that ends it, and tasks read them there. A position holds
- `cursor`: the value that the next request names, as the last item had it;
- `seen`: digests of the items that the service may show again although they were sent: those with
  that cursor; without a cursor all that the last answer had;
- `batch`: the messages that lead here, packed.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from iggy_spark.errors import SinkError
from iggy_spark.source_blocks import Http
from iggy_spark.sources.base import Position, as_type, message_id

# A position may have 1 MiB, and base64 makes bytes a third more.
BATCH_BYTES_MAX: Final = 512 << 10  # of one batch, before it is packed, and of one item
TIED_BYTES_MAX: Final = 640 << 10  # the same where items of one cursor are not to be parted
SEEN_MAX: Final = 10_000  # items; more need a cursor
DIGEST_BYTES: Final = 8
_COMPACT: Final = -1  # indent of JSON that has none

_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

Cursor = str | int | float


class At(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A position."""

    cursor: Cursor | None = None
    seen: str = ""  # base64 of all digests
    batch: str = ""  # base64 of the lines, compressed

    def __post_init__(self) -> None:
        """Refuse what is no base64: ValueError."""
        self.digests()

    def digests(self) -> list[bytes]:
        """`seen`, as values."""
        data = base64.b64decode(self.seen)
        return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]

    def is_at(self, other: At) -> bool:
        """Whether the other one has come equally far."""
        return (self.cursor, self.seen) == (other.cursor, other.seen)


class Item(NamedTuple):
    """One message: its id, its cursor where it has one, and its JSON on one line."""

    id: bytes
    cursor: Cursor | None
    payload: bytes

    @property
    def digest(self) -> bytes:
        """Short for the id."""
        return self.id[:DIGEST_BYTES]


def parse(position: Position) -> At:
    """A position out of a checkpoint.

    Raises:
        OffsetFormatError: it is none of this source.
    """
    return as_type(position, At, "Http")


def to_json(at: At) -> dict[str, Any]:
    """A position as a checkpoint has it."""
    found: dict[str, Any] = msgspec.to_builtins(at)
    return found


def packed(items: Iterable[Item]) -> str:
    """Messages as a position has them."""
    return base64.b64encode(zlib.compress(b"\n".join(item.payload for item in items))).decode()


def unpacked(batch: str) -> list[bytes]:
    """The same, back."""
    return zlib.decompress(base64.b64decode(batch)).split(b"\n") if batch else []


class Reader:
    """Finds items in answers, as the block says."""

    def __init__(self, block: Http, name: str) -> None:
        """`name` is the source's; it is part of the ids."""
        self._block, self._name = block, name

    def items(self, body: bytes) -> list[Item]:
        """The items of an answer, in its order.

        Raises:
            SinkError: it has no list, cursor or id where the block says, or an item is too large.
            msgspec.MsgspecError: it is no JSON.
        """
        found = _at(body, self._block.items, "items") if self._block.items else msgspec.Raw(body)
        text = bytes(found).strip()
        if text == b"null":
            return []
        if text.startswith(b"["):
            return [self.item(bytes(one)) for one in _LIST.decode(text)]
        if self._block.items:
            raise SinkError(f"http.items: {self._block.items} of the answer is no list")
        return [self.item(text)]

    def item(self, text: bytes) -> Item:
        """One item of its JSON."""
        payload = msgspec.json.format(text, indent=_COMPACT)
        if len(payload) > BATCH_BYTES_MAX:
            raise SinkError(
                f"http.url: an item has {len(payload)} bytes, and at most {BATCH_BYTES_MAX} are "
                "carried: ask the service for less of it"
            )
        cursor = self._cursor(payload)
        words: list[str | bytes | int] = [self._name, "http"]
        if cursor is not None:
            words.append(str(cursor))
        words.append(self._own_id(payload))
        return Item(message_id(*words), cursor, payload)

    def _cursor(self, payload: bytes) -> Cursor | None:
        if self._block.cursor is None:
            return None
        return _scalar(payload, self._block.cursor.path, "cursor.path")

    def _own_id(self, payload: bytes) -> str | bytes:
        if self._block.id_path is None:
            return hashlib.blake2b(payload, digest_size=16).digest()
        return str(_scalar(payload, self._block.id_path, "idPath"))


def _scalar(payload: bytes, path: str, field: str) -> Cursor:
    found = msgspec.json.decode(_at(payload, path, field))
    if isinstance(found, bool) or not isinstance(found, (str, int, float)):
        raise SinkError(f"http.{field}: {path} of an item is neither text nor a number")
    return found


def _at(text: bytes, path: str, field: str) -> msgspec.Raw:
    """The JSON at a dotted path, unparsed."""
    found = msgspec.Raw(text)
    for name in path.split("."):
        try:
            inside = _OBJECT.decode(found)
        except msgspec.ValidationError:
            inside = {}
        if name not in inside:
            whose = "the answer" if field == "items" else "an item"
            raise SinkError(f"http.{field}: {path} is not in {whose}: correct the path")
        found = inside[name]
    return found


class Plan:
    """Takes items of answers into a batch, one answer after the other."""

    def __init__(self, start: At, messages_max: int, *, has_cursor: bool) -> None:
        """`start` is where the batch begins."""
        self._start, self._messages_max = start, messages_max
        self._has_cursor = has_cursor
        self._sent = frozenset(start.digests())
        self._known = set(self._sent)
        self._shown: list[bytes] = []  # digests of what was shown, and was sent or is in the batch
        self._last: Cursor | None = None
        self._bytes = 0
        self.batch: list[Item] = []
        self.is_full = False

    def take(self, items: Sequence[Item]) -> None:
        """Take what is new, until the batch is full.

        Raises:
            SinkError: the items are not in the order of their cursor, or too many have the same.
        """
        for item in items:
            self._check_order(item)
            if item.digest not in self._known:
                self.is_full = self.is_full or self._is_enough(item)
                if self.is_full:
                    continue
                self._known.add(item.digest)
                self._bytes += len(item.payload)
                self.batch.append(item)
            self._shown.append(item.digest)

    def _is_enough(self, item: Item) -> bool:
        size = self._bytes + len(item.payload)
        # A service that shows what is greater than a cursor never shows its equals again.
        if self.batch and item.cursor is not None and item.cursor == self.batch[-1].cursor:
            if size > TIED_BYTES_MAX:
                raise SinkError(
                    f"http.cursor: items with {item.cursor} have more than {TIED_BYTES_MAX} bytes: "
                    "choose a cursor that tells more items apart"
                )
            return False
        return len(self.batch) >= self._messages_max or size > BATCH_BYTES_MAX

    def _check_order(self, item: Item) -> None:
        """Texts have an order that only the service knows, numbers have one; and what was sent
        comes before what was not.
        """
        if not self._has_cursor:
            return
        assert item.cursor is not None
        last = self._last if self._last is not None else self._start.cursor
        self._last = item.cursor
        is_lower = False
        if isinstance(last, (int, float)) and isinstance(item.cursor, (int, float)):
            is_lower = item.cursor < last
        is_old = item.digest in self._sent and last != self._start.cursor
        if is_lower or is_old:
            raise SinkError(
                f"http.cursor: an item with {item.cursor} comes behind {last}: the service must "
                "give what is behind the cursor, the lowest first: correct cursor.parameter, or "
                "ask for that order by what is behind ? in url"
            )

    def end(self) -> At:
        """The position behind the batch, or the start if there is none.

        Raises:
            SinkError: too much must be remembered.
        """
        if not self.batch:
            return self._start
        cursor = self.batch[-1].cursor
        seen = self._seen(cursor)
        if len(seen) > SEEN_MAX:
            what = f"with the cursor {cursor}" if self._has_cursor else "in one answer"
            raise SinkError(
                f"http.cursor: more than {SEEN_MAX} items {what}, which are too many to remember: "
                "choose a cursor that tells more items apart"
            )
        return At(cursor, base64.b64encode(b"".join(seen)).decode(), packed(self.batch))

    def _seen(self, cursor: Cursor | None) -> list[bytes]:
        if self._has_cursor:
            before = self._start.digests() if cursor == self._start.cursor else []
            return [*before, *(item.digest for item in self.batch if item.cursor == cursor)]
        return list(dict.fromkeys(self._shown))
