"""Which topics an archive has, and which messages belong to one of them. Pure.

The numbers of streams and topics are used again, so a folder's number does not tell a topic: its
life does. The partitions of a topic have the life of the change that made them: those that came
with the topic the same, those that were added a later one. A topic that was deleted and made again
begins anew, with partition 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iggy_spark.errors import BrokerRefused, OffsetFormatError
from iggy_spark.offsets import QueryOffsets
from iggy_spark.selection import TopicName
from iggy_wire.archive import Life, Manifest
from iggy_wire.archive_listing import Partition, life_of

ARCHIVED: Final = "archive-"  # begins what tells the lives of archived topics apart
NAMES_TOLD_MAX: Final = 20  # in a message


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """One life of a topic, between two purges if it had any."""

    name: TopicName  # as it was called last
    stream_id: int
    topic_id: int
    life: Life  # of its first partition
    partitions: Mapping[int, Life]

    @property
    def incarnation(self) -> str:
        """As offsets carry it."""
        return f"{ARCHIVED}{self.topic_id}-{self.life.suffix}"

    def place(self, number: int) -> Partition:
        """Of a partition in the archive."""
        return Partition(self.stream_id, self.topic_id, number)


@dataclass(slots=True)
class _Made:
    """A topic from its making to its end."""

    plain: bool = False  # whether its folder has the plain name
    lives: dict[int, set[Life]] = field(default_factory=dict)  # by partition
    newest: Manifest | None = None

    def takes(self, numbers: set[int]) -> bool:
        """Whether a later change may have added these partitions to it."""
        purged = any(life.purges for lives in self.lives.values() for life in lives)
        # Until it is emptied, all that is added to the topic with the plain name goes there, too.
        return min(numbers) > max(self.lives) and not (self.plain and not purged)

    def add(self, manifest: Manifest) -> None:
        self.lives.setdefault(manifest.partition_id, set()).add(life_of(manifest))
        if self.newest is None or manifest.written_at_us >= self.newest.written_at_us:
            self.newest = manifest

    def topics(self) -> list[ArchivedTopic]:
        """One for each number of purges, the last one last."""
        assert self.newest is not None, "made of manifests"
        newest = self.newest
        first = min(life.incarnation for lives in self.lives.values() for life in lives)
        found = []
        for purges in sorted({life.purges for lives in self.lives.values() for life in lives}):
            partitions = {
                number: life
                for number, lives in sorted(self.lives.items())
                if (life := self._at(lives, first, purges)) is not None
            }
            name = TopicName(newest.stream, newest.topic)
            topic = ArchivedTopic(
                name, newest.stream_id, newest.topic_id, Life(first, purges), partitions
            )
            found.append(topic)
        return found

    @staticmethod
    def _at(lives: set[Life], first: int, purges: int) -> Life | None:
        """A partition's life when the topic had been emptied so often. One that was added later
        has been emptied less often.
        """
        fitting = [life for life in lives if life.purges <= purges]
        newest = max(fitting, default=None)
        if newest is None or (newest.incarnation == first and newest.purges < purges):
            return None
        return newest


def topics(newest: Iterable[tuple[str, Manifest]]) -> list[ArchivedTopic]:
    """All that there is, a topic's later lives behind its earlier ones.

    `newest`: of each folder of a partition its last manifest.
    """
    by_number: dict[tuple[int, int], list[tuple[bool, Manifest]]] = {}
    for folder, manifest in newest:
        plain = "." not in folder
        numbers = (manifest.stream_id, manifest.topic_id)
        by_number.setdefault(numbers, []).append((plain, manifest))
    return [
        topic
        for _, found in sorted(by_number.items())
        for made in _made(found)
        for topic in made.topics()
    ]


def _made(found: list[tuple[bool, Manifest]]) -> list[_Made]:
    """The topics that had a number, in their order."""
    by_incarnation: dict[int, list[tuple[bool, Manifest]]] = {}
    for plain, manifest in found:
        by_incarnation.setdefault(manifest.incarnation, []).append((plain, manifest))
    made: list[_Made] = []
    for _, ours in sorted(by_incarnation.items()):
        is_plain = any(plain for plain, _ in ours)
        numbers = {manifest.partition_id for _, manifest in ours}
        into = next((one for one in made if one.plain), None) if is_plain else None
        if into is None and made and not is_plain and made[-1].takes(numbers):
            into = made[-1]
        if into is None:
            into = _Made(plain=is_plain)
            made.append(into)
        for _, manifest in ours:
            into.add(manifest)
    return made


def latest(found: Iterable[ArchivedTopic]) -> dict[str, ArchivedTopic]:
    """Of each name the topic that was made, or emptied, last; by "stream/topic"."""
    by_name: dict[str, ArchivedTopic] = {}
    for topic in found:
        before = by_name.get(str(topic.name))
        if before is None or before.life < topic.life:
            by_name[str(topic.name)] = topic
    return by_name


def choose(
    found: Iterable[ArchivedTopic], name: TopicName, wanted: Life | None, where: str
) -> ArchivedTopic:
    """The topic of that name, in the life that is `wanted`, or else in its last one.

    Raises:
        BrokerRefused: there is none; the message says what there is.
    """
    every = list(found)
    ours = [topic for topic in every if topic.name == name]
    if not ours:
        raise BrokerRefused(
            f"topic {name.topic!r} in stream {name.stream!r} is not in the {where}: "
            f"{_told(str(topic.name) for topic in every)}"
        )
    if wanted is None:
        return max(ours, key=lambda topic: topic.life)
    for topic in ours:
        if topic.life == wanted:
            return topic
    lives = _told(topic.life.suffix for topic in sorted(ours, key=lambda topic: topic.life))
    raise BrokerRefused(
        f"archive.incarnation={wanted.suffix}: {name} has no such life in the {where}: {lives}"
    )


def _told(names: Iterable[str]) -> str:
    known = sorted(set(names))
    if not known:
        return "there are no topics in it"
    more = ", …" if len(known) > NAMES_TOLD_MAX else ""
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known[:NAMES_TOLD_MAX])}{more}"


def check_origin(offsets: QueryOffsets, *, is_archive: bool) -> None:
    """Refuse offsets of a query that has read the same names from elsewhere.

    Raises:
        OffsetFormatError: the checkpoint is of a query with a broker, or of one without.
    """
    for name, item in offsets.topics.items():
        if item.incarnation.startswith(ARCHIVED) != is_archive:
            mode, other = ("only", "auto or off") if is_archive else ("auto or off", "only")
            at = ", ".join(f'"{n}": {position}' for n, position in item.positions.items())
            raise OffsetFormatError(
                f"the checkpoint is of a query with archiveMode={other}, this one has {mode}: use "
                f"a new checkpoint, and startingOffsets to go on where that one was ({name}: "
                f"{{{at}}})"
            )
