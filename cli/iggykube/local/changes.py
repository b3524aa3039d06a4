"""What a change of the files means that no stream, topic or job is changed for. Pure."""

from collections.abc import Iterator

from iggykube.local.plan import LocalPlan


def change_notes(former: LocalPlan, plan: LocalPlan) -> Iterator[str]:
    """For people: what stays as it is although the files say something else now."""
    if plan.broker_environment != former.broker_environment:
        yield "settings of the broker are others now: they count from the next `iggykube up` on"
    yield from (note for note in plan.notes if note not in former.notes)
    if plan.secrets != former.secrets:
        yield "Secrets are others now: jobs read them anew at their next connection"
    streams = {stream.stream_name for stream in plan.streams}
    for stream in former.streams:
        if stream.stream_name not in streams:
            yield f"stream {stream.stream_name} is in no file any more: it stays in the broker"
    topics = _topic_names(plan)
    for name in sorted(_topic_names(former) - topics):
        yield f"topic {name} is in no file any more: it stays in the broker"


def _topic_names(plan: LocalPlan) -> set[str]:
    return {f"{item.stream.stream_name}/{item.topic.topic_name}" for item in plan.topics}
