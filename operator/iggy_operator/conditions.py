"""Conditions in Kubernetes' usual form: values, and how new ones replace old ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from iggy_operator.reasons import Reason

CONDITIONS_MAX: Final = 16  # as the schema says
MESSAGE_CHARACTERS_MAX: Final = 1024
"""A longer message is cut: it is one sentence for people."""

Truth: TypeAlias = Literal["True", "False", "Unknown"]
READY: Final = "Ready"
SYNCED: Final = "Synced"
PAUSED: Final = "Paused"
CREDENTIALS_READY: Final = "CredentialsReady"
DATA_CONTINUITY: Final = "DataContinuity"
SINKS_READY: Final = "SinksReady"
SOURCES_READY: Final = "SourcesReady"
AVAILABLE: Final = "Available"
LAGGING: Final = "Lagging"
CHECKPOINT_READY: Final = "CheckpointReady"
PROGRESSING: Final = "Progressing"
STORAGE_READY: Final = "StorageReady"
CONFIG_APPLIED: Final = "ConfigApplied"
ARCHIVE_HEALTHY: Final = "ArchiveHealthy"
CERTIFICATE_READY: Final = "CertificateReady"


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of an object's state."""

    type: str
    status: Truth
    reason: Reason
    message: str = ""


def condition(kind: str, is_true: bool, reason: Reason, message: str = "") -> Condition:
    """A condition that is true or false."""
    return Condition(kind, "True" if is_true else "False", reason, message)


def found(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The condition of that type in a status."""
    return next((item for item in conditions if item["type"] == kind), None)


def merged(
    old: Sequence[Mapping[str, Any]], new: Iterable[Condition], *, generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions of a status: those in `new` replace their like, the others stay.

    `lastTransitionTime` moves only when `status` changes. Ready comes first, the rest by name.
    """
    result = {item["type"]: dict(item) for item in old}
    for item in new:
        before = result.get(item.type)
        is_same = before is not None and before["status"] == item.status
        result[item.type] = {
            "type": item.type,
            "status": item.status,
            "observedGeneration": generation,
            "lastTransitionTime": before["lastTransitionTime"] if before and is_same else now,
            "reason": str(item.reason),
            "message": _short(item.message),
        }
    assert len(result) <= CONDITIONS_MAX, "a kind has a handful of conditions"
    return sorted(result.values(), key=lambda item: (item["type"] != READY, item["type"]))


def _short(message: str) -> str:
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    return message[: MESSAGE_CHARACTERS_MAX - 1] + "…"
