"""How many dead letters a sink's topic for them has got, and the event that tells of the first of
an hour.
"""

from collections.abc import Mapping
from typing import Any, Final

from iggy_client import calls
from iggy_operator.broker_admin import BrokerAdmin
from iggy_operator.decide.connectors import Target
from iggy_operator.kinds.common import Note
from iggy_operator.kinds.connector_progress import end_of
from iggy_operator.units import time_of, time_text

TOLD_S: Final = 3600
"""Further letters are told after so long."""


async def look(
    admin: BrokerAdmin, target: Target, *, now_s: float, old: Mapping[str, Any]
) -> dict[str, Any]:
    """`status.deadLetters`, from what it was; empty if there is no such topic. Raises BrokerError.

    The first look tells of nothing: what is there may be from long ago.
    """
    details = await admin.ask(calls.get_topic(target.stream, target.topic))
    if details is None:
        return {}
    messages = sum(end_of(partition) for partition in details.partitions)
    told = old.get("lastEventTime")
    before = old.get("messages", messages)
    # Fewer: the topic was made anew.
    is_news = messages > (before if messages >= before else 0)
    if is_news and (told is None or now_s - time_of(told) >= TOLD_S):
        told = time_text(now_s)
    return {"messages": messages, **({"lastEventTime": told} if told else {})}


def note(target: Target, now: Mapping[str, Any], old: Mapping[str, Any]) -> Note | None:
    """The event, if this look is to tell of letters."""
    if now.get("lastEventTime") == old.get("lastEventTime"):
        return None
    text = (
        f"messages are set aside in {target}, which has {now['messages']} by now: see their "
        "headers iggy.dlq.error"
    )
    return Note("DeadLetters", text)
