"""The words that people meet on objects besides fields: conditions, events, annotations, labels.

Tables only. The reference pages are made from them, and a test compares them with the code. Reasons
explain themselves in `reasons`.
"""

from dataclasses import dataclass
from typing import Final

from iggy_operator import API_GROUP, conditions, objects
from iggy_operator.desired import metadata
from iggy_operator.reasons import Reason

PREFIX: Final = f"{API_GROUP}/"
ALL: Final = ("IggyBroker", "IggyStream", "IggyTopic", "IggySink", "IggySource", "IggyUser")
_CONNECTORS: Final = ("IggySink", "IggySource")
_IN_BROKER: Final = ("IggyStream", "IggyTopic", "IggyUser")


@dataclass(frozen=True, slots=True)
class Word:
    """One word, the kinds that it is used with, and what it says."""

    word: str
    kinds: tuple[str, ...]
    meaning: str


CONDITIONS: Final = (
    Word(conditions.READY, ALL, "It exists, it can be used, and this generation of the spec is in "
         "force. There from birth, never taken away"),
    Word(conditions.SYNCED, _IN_BROKER, "Nothing in the broker differs from the spec, fields that "
         "cannot change included"),
    Word(conditions.PAUSED, ALL, "The operator is told not to act. Ready keeps its last value"),
    Word(conditions.PROGRESSING, ("IggyBroker",), "Something is under way; the message names the "
         "step"),
    Word(conditions.STORAGE_READY, ("IggyBroker",), "The volume is bound, has the size that is "
         "asked for, and less than 85 % of it are in use"),
    Word(conditions.CONFIG_APPLIED, ("IggyBroker",), "The running pod has the wanted settings; if "
         "not, the message says what waits for a restart"),
    Word(conditions.ARCHIVE_HEALTHY, ("IggyBroker",), "The archiver is off, or its last "
         "copies were taken"),
    Word(conditions.CERTIFICATE_READY, ("IggyBroker",), "With `listeners.tls`: the Secret has a "
         "certificate that clients take; as long as not, the broker is not restarted"),
    Word(conditions.CREDENTIALS_READY, ("IggyBroker", *_CONNECTORS, "IggyUser"), "The Secret is "
         "there and the broker accepts it"),
    Word(conditions.DATA_CONTINUITY, ("IggyTopic",), "The topic is the one that was first seen. "
         "False until somebody acknowledges that it was made anew"),
    Word(conditions.SINKS_READY, ("IggyTopic",), "All sinks are Ready with their present spec, or "
         "there are none"),
    Word(conditions.SOURCES_READY, ("IggyTopic",), "The same of its sources"),
    Word(conditions.AVAILABLE, _CONNECTORS, "A driver runs, and a sink's has committed within "
         "three triggers, or nothing waits; a source's is in its consumer group"),
    Word(conditions.LAGGING, ("IggySink",), "The sink is further behind than `lag` allows"),
    Word(conditions.CHECKPOINT_READY, _CONNECTORS, "The checkpoint's claim or location can be "
         "used"),
)  # fmt: skip

RESERVED: Final[tuple[Reason, ...]] = ()
"""Reasons that nothing gives yet."""

EVENTS: Final = (
    Word("DriftReverted", ("IggyTopic",), "Somebody changed the topic in the broker; it was set "
         "back"),
    Word("PartitionsAdded", ("IggyTopic",), "The topic had fewer partitions than wanted; it has "
         "as many now"),
    Word("Retained", _IN_BROKER, "The object went, and something stays in the broker; the message "
         "names it"),
    Word("Restored", ("IggyBroker",), "An empty volume was filled from the archive; the message "
         "says with what"),
    Word("PasswordChanged", ("IggyUser", "IggyBroker"), "The user, or root, has a new password"),
    Word("ApplicationGone", _CONNECTORS, "Somebody removed the Spark application; it is made "
         "anew"),
    Word("DeadLetters", ("IggySink",), "Messages were set aside in the topic of its dead letters: "
         "once an hour"),
    Word("NearRetention", ("IggySink",), "The oldest message that it has not carried over has less "
         "than 20 % of the topic's expiry left: once, and again after it had more"),
    Word("SecondReader", _CONNECTORS, "Another program is in the consumer group of the job, so a "
         "sink's progress is not what it says"),
)  # fmt: skip
"""Events that are no reason of a condition."""

ANNOTATIONS: Final = (
    Word("paused", ALL, '`"true"`: nothing is changed anywhere; what is seen is shown; a deletion '
         "waits"),
    Word("unmanaged", _IN_BROKER, '`"true"`: as `paused`, and the finalizer is dropped, so that '
         "deleting the object leaves the broker alone"),
    Word("reconcile-at", ALL, "Any text: a change of it leads to a pass at once, as every change "
         "does"),
    Word("restart-at", ("IggyBroker", *_CONNECTORS), "A time, or any text: one restart for each "
         "new value, which takes over everything that waits"),
    Word("redrive", ("IggySink",), "A time, or any text: for each new value the job is restarted "
         "and writes its dead letters again; choices may follow, as those of `iggykube sink "
         "redrive`. Leave it, since a removal restarts the job, too"),
    Word("rotate-password-at", ("IggyUser", "IggyBroker"), "A time such as "
         "`2026-05-01T12:00:00Z`: a new generated password once that time has come"),
    Word("acknowledge-recreation", ("IggyTopic",), "The incarnation that the message of "
         "DataContinuity names: the loss is known, paused sinks go on"),
    Word("force-release", _IN_BROKER, '`"true"`: the finalizer is dropped without the broker '
         "being touched"),
)  # fmt: skip
"""Those that people set, without the prefix."""

LABELS: Final = (
    Word(metadata.BROKER_LABEL, ("IggyBroker",), "Name of the IggyBroker"),
    Word(metadata.TOPIC_LABEL, ("IggyTopic", *_CONNECTORS), "Name of the IggyTopic"),
    Word(metadata.SINK_LABEL, ("IggySink",), "Name of the IggySink"),
    Word(metadata.SINK_UID_LABEL, ("IggySink",), "Its uid: pods of an earlier sink of that name "
         "differ in it"),
    Word(metadata.SOURCE_LABEL, ("IggySource",), "Name of the IggySource"),
    Word(metadata.SOURCE_UID_LABEL, ("IggySource",), "Its uid, as that of an IggySink"),
    Word(metadata.USER_LABEL, ("IggyUser",), "Name of the IggyUser"),
)  # fmt: skip
"""On what the operator makes for an object; too long a name is cut and marked with its hash."""

FINALIZER: Final = Word(
    objects.FINALIZER, _IN_BROKER,
    "On an object only while something in a broker is to be deleted with it",
)  # fmt: skip
