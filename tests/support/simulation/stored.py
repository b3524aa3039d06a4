"""What may be stored as the offset of a reader, and how far the head of a log may be gone.

A reader is a consumer by its number, or a group by its name. Several members of a group work on one
offset at once, so the order in which they are answered is not the order in which things happened:
operations that overlap leave all their values possible.
"""

from __future__ import annotations

from dataclasses import dataclass

ABSENT = -1  # no offset is stored

Reader = int | str


@dataclass(eq=False)
class Doing:
    """One operation on a reader's offset, from request to answer."""

    reader: Reader
    offset: int | None = None  # that it stores; None: a read, or not known yet
    blind: bool = False  # it stores what nobody knows before its answer
    alone: bool = True  # no other operation on the same offset overlaps it
    sighted: bool = True  # no blind one does


class Stored:
    """By reader, what may be stored now, and what a power cut may leave of a durable store."""

    def __init__(self) -> None:
        self.now: dict[Reader, set[int]] = {}
        self.kept: dict[Reader, set[int]] = {}
        self._late: dict[Reader, set[int]] = {}  # not answered: may be done until a restart
        self._open: dict[Reader, list[Doing]] = {}

    def of(self, reader: Reader) -> set[int]:
        """What may be stored."""
        return self.now.get(reader, {ABSENT})

    def begin(self, reader: Reader, offset: int | None = None, *, blind: bool = False) -> Doing:
        """An operation is on its way: a store of `offset`, a read, or a blind store."""
        doing = Doing(reader, offset, blind)
        others = self._open.setdefault(reader, [])
        for other in others:
            other.alone = doing.alone = False
            other.sighted = other.sighted and not blind
            doing.sighted = doing.sighted and not other.blind
        others.append(doing)
        if offset is not None:
            self._add(reader, {offset})
        return doing

    def stored(self, doing: Doing, offset: int) -> None:
        """It was answered: `offset` is stored, unless others came between."""
        self._end(doing)
        if not doing.alone:
            self._add(doing.reader, {offset})
            return
        left = {offset} | self._late.get(doing.reader, set())
        self.now[doing.reader], self.kept[doing.reader] = set(left), set(left)

    def refused(self, doing: Doing) -> None:
        """It was refused, or did nothing."""
        self._end(doing)

    def cut_off(self, doing: Doing, anything: set[int]) -> None:
        """Its answer never came. A blind store may have stored any of `anything`."""
        self._end(doing)
        values = anything if doing.blind else {doing.offset}
        late = {value for value in values if value is not None}
        self._late.setdefault(doing.reader, set()).update(late)
        self._add(doing.reader, late)

    def read(self, doing: Doing, offset: int) -> bool:
        """A read was answered; whether that may be."""
        self._end(doing)
        reader = doing.reader
        if not doing.sighted:
            return True
        if offset not in self.of(reader):
            return False
        if doing.alone:
            self.now[reader] = {offset} | self._late.get(reader, set())
        return True

    def forget(self, reader: Reader) -> None:
        """A new group: nothing is stored for it, whatever became of one with its name."""
        for doing in self._open.get(reader, ()):  # it may be answered for the old one
            doing.alone = doing.sighted = False
        self.now[reader], self.kept[reader] = {ABSENT}, {ABSENT}
        self._late.pop(reader, None)

    def restarted(self) -> None:
        """What was on its way is done or never will be."""
        self._late.clear()
        self._open.clear()

    def after_power_cut(self, *, durable: bool, end: int) -> None:
        """Only what was durable is certain."""
        if durable:
            self.now = {reader: set(kept) for reader, kept in self.kept.items()}
            return
        for reader in self.now:
            self.now[reader] = {ABSENT, *range(end + 1)}
            self.kept[reader] = {ABSENT, *range(end + 1)}

    def passed(self, end: int) -> int:
        """Below this offset all who store offsets may be through; `end` is that of the log."""
        lowest = end
        for reader, candidates in self.now.items():
            if ABSENT in candidates or any(one.blind for one in self._open.get(reader, ())):
                continue
            lowest = min(lowest, max(candidates) + 1)
        return lowest

    def _add(self, reader: Reader, values: set[int]) -> None:
        for candidates in (self.now, self.kept):
            candidates.setdefault(reader, {ABSENT}).update(values)

    def _end(self, doing: Doing) -> None:
        others = self._open.get(doing.reader, [])
        if doing in others:
            others.remove(doing)


class Head:
    """How far a log may have lost its head: what was asked for or is old, and passed by all."""

    def __init__(self, *, aged: bool = False, kept: bool = False) -> None:
        """`aged`: old messages go by themselves. `kept`: readers find what has gone elsewhere."""
        self.gone = 0  # so much of the log may be gone
        self._aged, self._kept = aged, kept
        self._target = 0
        self._asking = 0

    @property
    def allowed(self) -> int:
        """The first offset that can be read may be up to this one."""
        return 0 if self._kept else self.gone

    def asking(self) -> None:
        """Somebody asks for segments to be deleted."""
        self._asking += 1

    def asked(self, end: int, *, answered: bool) -> None:
        """It was answered, when the log ended at `end` at most; or it never was."""
        if answered:
            self._asking -= 1
            self._target = max(self._target, end)

    def advance(self, stored: Stored, end: int) -> None:
        """Something changed."""
        target = end if self._asking or self._aged else self._target
        self.gone = max(self.gone, min(target, stored.passed(end)))

    def restarted(self, end: int) -> None:
        """Nobody asks any more. Who did and was not answered may have been heard."""
        if self._asking:
            self._target = end
        self._asking = 0
        self._target, self.gone = min(self._target, end), min(self.gone, end)
