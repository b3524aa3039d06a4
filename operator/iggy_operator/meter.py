"""What the operator's parts tell about their work. Counters are handed in; this one counts nothing.

Knows no library: `metrics` has the meter that Prometheus reads.
"""

from iggy_operator.cluster import Ref


class Meter:
    """Told of everything that is worth a number."""

    def passed(self, kind: str, result: str, seconds: float) -> None:
        """A pass has ended: `done`, `again` (it waits for something) or `failed`."""

    def told(self, kind: str, reason: str) -> None:
        """Something happened to an object that people are told of, or were not long ago."""

    def restarted(self, uid: str, count: int) -> None:
        """So often the job of a sink or source was found to have been started after an end."""

    def asked(self, broker: Ref, command: str, result: str, seconds: float) -> None:
        """A broker has answered (`ok`), refused (`refused`) or not answered (`lost`)."""

    def forget_broker(self, broker: Ref) -> None:
        """Nobody talks to that broker any more."""


NO_METER = Meter()
