"""A warning before messages are gone: a query that is slower than its topics' retention."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from iggy_spark.offsets import QueryOffsets, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.outlook import Lookout
from iggy_spark.topics import Topics

HEADROOM_RATIO_MIN: Final = 0.2  # of the expiry, that the oldest unread message should still have

_log = logging.getLogger(__name__)


class RetentionWatch:
    """Looks now and then, and warns once when a topic gets short of time, and again after it was
    well in between.
    """

    def __init__(
        self, options: ReadOptions, topics: Topics, *, now: Callable[[], float] = time.time
    ) -> None:
        """`now` gives seconds since 1970. Opens nothing."""
        self._options = options
        self._topics = topics
        self._now = now
        self._lookouts: dict[str, Lookout] = {}
        self._short: set[str] = set()

    def look(self, done: QueryOffsets, found: Iterable[TopicState]) -> None:
        """`done`: what is read. A broker that does not answer is no reason to warn."""
        states = {state.name: state for state in found}
        for name, item in done.topics.items():
            seen = self._lookout(name).look(item.positions, states.get(name))
            if seen is None:
                continue
            short = seen.headroom_ratio is not None and seen.headroom_ratio < HEADROOM_RATIO_MIN
            if short and name not in self._short:
                _log.warning(
                    "%s: the oldest unread message is %.0f s old, %.0f %% of the topic's expiry "
                    "are left until it is gone: read faster, or keep messages for longer",
                    name,
                    seen.lag_seconds,
                    100 * (seen.headroom_ratio or 0.0),
                )
            self._short = self._short | {name} if short else self._short - {name}

    def _lookout(self, name: str) -> Lookout:
        found = self._lookouts.get(name)
        if found is None:
            options = self._options.for_topic(self._topics.name(name))
            found = self._lookouts[name] = Lookout(options, now=self._now)
        return found
