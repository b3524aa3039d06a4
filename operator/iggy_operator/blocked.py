"""The one exception of a pass: it cannot go on, and a condition says why."""

from iggy_operator.conditions import Truth
from iggy_operator.reasons import Reason


class Blocked(Exception):
    """What stands in the way, and what a person can do about it."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        ready: Truth | None = "False",
        again_s: float | None = None,
    ) -> None:
        """`ready`: what Ready becomes, None keeps it. `again_s`: when another pass makes sense."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.ready = ready
        self.again_s = again_s
