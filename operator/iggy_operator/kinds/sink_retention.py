"""How much of its topic's expiry the oldest message still has that a sink has not carried over, and
the event that tells when that is little.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from iggy_operator.kinds.common import Note
from iggy_wire.primitives import EXPIRY_NEVER
from iggy_wire.replies_resources import TopicHeader

HEADROOM_PERCENT_MIN: Final = 20
"""With less of it the sink has an event: the bound of the job's log and of the alert."""
PARTITIONS_MAX: Final = 64
"""Whose first waiting message is looked at: those with the largest lag, as the job does."""


def expiry_s(topic: TopicHeader) -> float | None:
    """How long its messages are kept, in seconds; None: for ever, or not told."""
    expiry_us = topic.message_expiry_us
    return expiry_us / 1_000_000 if 0 < expiry_us < EXPIRY_NEVER else None


def headroom(ages_s: Iterable[int | None], expiry_s: float | None) -> int | None:
    """`status.progress.headroomPercent` by the ages of messages that wait, in whole percent, cut
    down; None where none is known or they never expire.
    """
    known = [age_s for age_s in ages_s if age_s is not None]
    if expiry_s is None or not known:
        return None
    return max(0, int(100 * (expiry_s - max(known)) / expiry_s))


def note(now: Mapping[str, Any], old: Mapping[str, Any]) -> Note | None:
    """The event, if this look at the progress is the first one with too little."""
    if not _is_near(now) or _is_near(old):
        return None
    text = (
        f"the oldest message that waits has {now['headroomPercent']} % of the topic's expiry left: "
        "let the topic keep messages for longer, or make the sink faster"
    )
    return Note("NearRetention", text)


def _is_near(progress: Mapping[str, Any]) -> bool:
    return int(progress.get("headroomPercent", HEADROOM_PERCENT_MIN)) < HEADROOM_PERCENT_MIN
