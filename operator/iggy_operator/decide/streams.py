"""One stream: what to do about it."""

from dataclasses import dataclass, replace

from iggy_operator.decide.actions import CreateStream, Decision, Reason
from iggy_operator.resources import Stream


@dataclass(frozen=True, slots=True)
class ObservedStream:
    """A stream as the broker shows it."""

    stream_id: int
    created_at_us: int

    @property
    def incarnation(self) -> str:
        """Identity beyond the name."""
        return f"{self.stream_id}-{self.created_at_us}"


def decide_stream(
    desired: Stream, observed: ObservedStream | None, *, known: str | None = None
) -> Decision:
    """`known` is the incarnation that we made or adopted before, None if there was none."""
    if observed is None:
        return Decision(
            actions=(CreateStream(desired.stream_name),),
            is_recreated=known is not None,
            reason=Reason.SYNCED if known is None else Reason.RECREATED,
            message="" if known is None else "the stream was deleted in the broker; made again",
        )
    if known is None and desired.adoption_policy == "FailIfExists":
        return Decision(
            is_ready=False,
            is_synced=False,
            reason=Reason.ALREADY_EXISTS,
            message=f"stream {desired.stream_name} exists already in the broker: "
            "choose another streamName, or set adoptionPolicy to Adopt",
        )
    if known is not None and known != observed.incarnation:
        message = "the stream was deleted in the broker and made again by somebody else"
        return Decision(is_recreated=True, reason=Reason.RECREATED, message=message)
    return Decision()


def judge_stream(
    desired: Stream, observed: ObservedStream | None, *, known: str | None = None
) -> Decision:
    """As `decide_stream`, where nothing may be done: what is true then."""
    if observed is None:
        message = f"stream {desired.stream_name} is not in the broker"
        return Decision(is_synced=False, reason=Reason.MISSING, message=message)
    decision = decide_stream(desired, observed, known=known)
    return replace(decision, is_synced=not decision.is_recreated and decision.is_synced)
