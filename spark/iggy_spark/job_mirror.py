"""The sink job in its consumer group: joined before the target is touched, told of every batch that
Spark has committed, left at the end. What is committed is read from Spark's own commit log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from iggy_spark.checkpoint import Checkpoint
from iggy_spark.errors import BrokerUnavailable
from iggy_spark.membership import LOOK_S, Occupied
from iggy_spark.mirror import Mirror
from iggy_spark.offsets import Offsets
from iggy_spark.options import ReadOptions

AGAIN_S: Final = 1.0  # after the broker could not be told


class JobMirror:
    """Never waits while a batch runs, so that a request to stop is heard."""

    def __init__(
        self,
        options: ReadOptions,
        checkpoint: Checkpoint,
        incarnation: str,
        *,
        should_stop: Callable[[], bool],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`should_stop` is looked at while waiting for others to leave the group; `failed` is
        called when the broker could not be told.
        """
        self._mirror = Mirror(options, waits=False)
        self._checkpoint = checkpoint
        self._incarnation = incarnation
        self._should_stop = should_stop
        self._failed = failed
        self._done: Offsets | None = None
        self._told: int | None = None  # the batch whose end is in `_done`
        self._due_s = 0.0
        self._has_joined = False

    @property
    def positions(self) -> Mapping[int, int] | None:
        """The next offset to do in each partition, as Spark has committed it; None: nothing yet."""
        return None if self._done is None else self._done.positions

    def join(self, *, contact_s: float) -> bool:
        """Become the group's only member; False if asked to stop while others are in it.

        Raises:
            Fenced: the others stay.
            BrokerUnavailable: the broker was not there for `contact_s`.
        """
        if not join_within(
            lambda: self._mirror.join(self._incarnation),
            contact_s=contact_s,
            should_stop=self._should_stop,
        ):
            return False
        self._done = self._checkpoint.committed(self._incarnation)
        self._has_joined = True
        return True

    def tell(self, batch: int | None) -> None:
        """Store the end of `batch`, the last one that was written, once Spark has committed it.

        A broker that is away is told later; if it stays away, the query fails by itself.

        Raises:
            Fenced: another has taken our place.
            BrokerRefused: the broker wants nothing from us any more.
        """
        if batch is not None and batch != self._told:
            self._look_at(batch)
        if time.monotonic() < self._due_s:
            return
        try:
            self._store()
        except (Occupied, BrokerUnavailable):
            self._failed()
            self._due_s = time.monotonic() + AGAIN_S

    def finish(self, *, contact_s: float) -> None:
        """Store what Spark has committed in the end. Nothing, if this never was a member.

        Raises:
            Fenced, BrokerUnavailable: not possible within `contact_s`.
        """
        if not self._has_joined:
            return
        self._done = self._checkpoint.committed(self._incarnation)
        deadline = time.monotonic() + contact_s
        while True:
            try:
                self._store(is_last=True)
            except (Occupied, BrokerUnavailable):
                if time.monotonic() >= deadline:
                    raise
            else:
                return
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Leave the group."""
        self._mirror.close()

    def _look_at(self, batch: int) -> None:
        if self._checkpoint.has_committed(self._incarnation, batch):
            self._done, self._told = self._checkpoint.committed(self._incarnation), batch

    def _store(self, *, is_last: bool = False) -> None:
        if self._done is None:
            self._mirror.join(self._incarnation)
        else:
            self._mirror.store(self._done, is_last=is_last)


def join_within(
    join: Callable[[], object], *, contact_s: float, should_stop: Callable[[], bool]
) -> bool:
    """Join until it works; False if asked to stop while others are in the group.

    Raises:
        Fenced: the others stay.
        BrokerUnavailable: the broker was not there for `contact_s`.
    """
    deadline = time.monotonic() + contact_s
    while not should_stop():
        try:
            join()
        except Occupied:
            pass  # it ends by itself, as Fenced
        except BrokerUnavailable:
            if time.monotonic() >= deadline:
                raise
        else:
            return True
        time.sleep(LOOK_S)
    return False
