"""Brokers that restart because the operator is a new release do so one after the other."""

from collections.abc import Iterable

from iggy_operator.cache import Entry
from iggy_operator.cluster import Ref
from iggy_operator.conditions import PROGRESSING, found
from iggy_operator.objects import is_annotated, status_of


class Turns:
    """Whose turn it is. In memory: after a start the brokers' own status tells who is under way."""

    def __init__(self) -> None:
        """It is nobody's turn."""
        self._holder: Ref | None = None

    def take(self, ref: Ref, brokers: Iterable[Entry]) -> Ref | None:
        """Take the turn, or say which broker has it. `brokers`: all that there are.

        One that does not come back keeps it: the next would not come back, either.
        """
        others = [entry for entry in brokers if entry.ref != ref]
        for entry in others:
            is_under_way = entry.ref == self._holder or _is_restarting(entry)
            if is_under_way and not is_annotated(entry.value, "paused"):
                return entry.ref
        self._holder = ref
        return None

    def give_back(self, ref: Ref) -> None:
        """The broker has come back, or has nothing to take over."""
        if self._holder == ref:
            self._holder = None


def _is_restarting(entry: Entry) -> bool:
    """Whether it is on its way back. One that is being made for the first time holds nobody up."""
    status = status_of(entry.value)
    progressing = found(status.get("conditions", ()), PROGRESSING)
    is_under_way = progressing is not None and progressing["status"] == "True"
    return is_under_way and "lastRestartTime" in status.get("restart", {})
