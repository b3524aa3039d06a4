"""Specs as frozen values: durations in microseconds, sizes in bytes, options as the broker's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from iggy_operator import names, units
from iggy_operator.desired.metadata import (
    SINK_LABEL,
    SINK_UID_LABEL,
    SOURCE_LABEL,
    SOURCE_UID_LABEL,
)
from iggy_operator.documents import DEFAULT_NAMESPACE, Document, load_documents
from iggy_operator.secret_documents import Secret

DEFAULT_BROKER: Final = "iggy"
# All bits set stand for "never" and "unlimited" (Iggy protocol 0.11); 0 would mean the default.
FOREVER: Final = (1 << 64) - 1

OptionValue: TypeAlias = bool | int | str
DeletionPolicy: TypeAlias = Literal["Retain", "DeleteIfEmpty", "Delete"]
AdoptionPolicy: TypeAlias = Literal["Adopt", "FailIfExists"]


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which object of a kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """`name`, with the namespace in front unless it is the default one."""
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Broker:
    """An IggyBroker, as far as one process on one machine is concerned."""

    key: Key
    mode: Literal["Managed", "External"]
    shards_count: int | None
    config: Mapping[str, str]
    """Further settings: dotted keys of the configuration file."""
    spec: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """An IggyStream."""

    key: Key
    broker: Key
    stream_name: str
    deletion_policy: DeletionPolicy
    adoption_policy: AdoptionPolicy


@dataclass(frozen=True, slots=True)
class Topic:
    """An IggyTopic. `options` are the broker's option values that the spec asks for."""

    key: Key
    stream: Key
    topic_name: str
    partitions_count: int
    may_drop_partitions: bool
    options: Mapping[str, OptionValue]
    deletion_policy: DeletionPolicy
    adoption_policy: AdoptionPolicy
    drift_policy: Literal["Revert", "Report"]
    missing_policy: Literal["Recreate", "Report"]
    consumer_groups: tuple[str, ...]
    sinks: tuple["Sink", ...]
    sources: tuple["Source", ...] = ()


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens when a connector's job ends."""

    policy: Literal["Always", "OnFailure", "Never"]
    retries_max: int
    pause_s_max: int


@dataclass(frozen=True, slots=True)
class Connector:
    """What one Spark job carries between a topic and another system: a sink or a source."""

    kind: ClassVar[str]
    word: ClassVar[str]
    """What people call it, in messages and in the job's file."""
    label: ClassVar[str]
    """On all that is made for one: its name."""
    uid_label: ClassVar[str]

    key: Key
    topic: Key
    type: str
    restart: Restart
    is_suspended: bool
    spec: Mapping[str, Any] = field(repr=False)
    """All fields with their defaults; `name` and `topicRef` left out."""


@dataclass(frozen=True, slots=True)
class Sink(Connector):
    """An IggySink, or an entry of a topic's `sinks`."""

    kind = "IggySink"
    word = "sink"
    label = SINK_LABEL
    uid_label = SINK_UID_LABEL


@dataclass(frozen=True, slots=True)
class Source(Connector):
    """An IggySource, or an entry of a topic's `sources`."""

    kind = "IggySource"
    word = "source"
    label = SOURCE_LABEL
    uid_label = SOURCE_UID_LABEL


CONNECTORS: Final[tuple[type[Connector], ...]] = (Sink, Source)
C = TypeVar("C", bound=Connector)


@dataclass(frozen=True, slots=True)
class User:
    """An IggyUser."""

    key: Key
    broker: Key
    username: str
    is_active: bool
    deletion_policy: DeletionPolicy
    spec: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything that some files ask for."""

    brokers: tuple[Broker, ...] = ()
    streams: tuple[Stream, ...] = ()
    topics: tuple[Topic, ...] = ()
    sinks: tuple[Sink, ...] = ()
    """Objects of their own; those of topics are in `topics`."""
    sources: tuple[Source, ...] = ()
    """As `sinks`."""
    users: tuple[User, ...] = ()
    documents: tuple[Document, ...] = field(default=(), repr=False)
    skipped: tuple[str, ...] = ()
    """Documents of other groups that were left alone."""
    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    """Kubernetes' own, in which sinks and sources find logins."""


def load(paths: Iterable[Path], old: Mapping[tuple[str, str, str], Any] | None = None) -> Resources:
    """Read, check and parse files. Raises `documents.DocumentErrors`: one line for each problem.

    `old` holds objects as they were applied last, by (kind, namespace, name).
    """
    loaded = load_documents(paths, old)
    return replace(parse(loaded.documents, skipped=loaded.skipped), secrets=loaded.secrets)


def parse(documents: Iterable[Document], *, skipped: tuple[str, ...] = ()) -> Resources:
    """Values of documents that `load_documents` has found right."""
    documents = tuple(documents)

    def of(kind: str) -> list[Mapping[str, Any]]:
        return [document.value for document in documents if document.kind == kind]

    return Resources(
        brokers=tuple(_broker(value) for value in of("IggyBroker")),
        streams=tuple(_stream(value) for value in of("IggyStream")),
        topics=tuple(_topic(value) for value in of("IggyTopic")),
        sinks=tuple(_connector_object(Sink, value) for value in of("IggySink")),
        sources=tuple(_connector_object(Source, value) for value in of("IggySource")),
        users=tuple(_user(value) for value in of("IggyUser")),
        documents=documents,
        skipped=skipped,
    )


def _key(value: Mapping[str, Any]) -> Key:
    metadata = value["metadata"]
    return Key(metadata.get("namespace", DEFAULT_NAMESPACE), metadata["name"])


def _reference(reference: Mapping[str, str], key: Key) -> Key:
    return Key(reference.get("namespace", key.namespace), reference["name"])


def _broker(value: Mapping[str, Any]) -> Broker:
    spec = value["spec"]
    return Broker(
        key=_key(value),
        mode=spec["mode"],
        shards_count=spec["shards"].get("count"),
        config=spec.get("config", {}),
        spec=spec,
    )


def _stream(value: Mapping[str, Any]) -> Stream:
    key, spec = _key(value), value["spec"]
    return Stream(
        key=key,
        broker=_reference(spec["brokerRef"], key),
        stream_name=spec.get("streamName", key.name),
        deletion_policy=spec["deletionPolicy"],
        adoption_policy=spec["adoptionPolicy"],
    )


def _topic(value: Mapping[str, Any]) -> Topic:
    key, spec = _key(value), value["spec"]
    return Topic(
        key=key,
        stream=_reference(spec["streamRef"], key),
        topic_name=spec.get("topicName", key.name),
        partitions_count=spec["partitions"],
        may_drop_partitions=spec["partitionDecreasePolicy"] == "DeleteData",
        options=topic_options(spec),
        deletion_policy=spec["deletionPolicy"],
        adoption_policy=spec["adoptionPolicy"],
        drift_policy=spec["driftPolicy"],
        missing_policy=spec["missingPolicy"],
        consumer_groups=tuple(group["name"] for group in spec.get("consumerGroups", ())),
        sinks=_topic_connectors(Sink, value),
        sources=_topic_connectors(Source, value),
    )


def topic_options(spec: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The broker's option values (Iggy protocol 0.11) that a topic's spec asks for."""
    retention, segment = spec["retention"], spec["segment"]
    expiry, size_max = retention["messageExpiry"], retention["maxSize"]
    return {
        "compression_algorithm": spec["compression"].lower(),
        "message_expiry": FOREVER if expiry == "never" else units.duration_us(expiry),
        "max_topic_size": FOREVER if size_max == "unlimited" else units.quantity_bytes(size_max),
        "segment_size": units.quantity_bytes(segment["size"]),
        "preallocate_segments": segment["preallocate"],
        **_durability_options(spec["durability"]),
    }


# What the profiles mean to the broker. Balanced is written to disk every hundred messages, or by
# the broker's saver within a second; Relaxed leaves both to the broker's own settings.
_PROFILES: Final[dict[str, dict[str, OptionValue]]] = {
    "Strict": {"durability": "persisted", "consumer_offset_durability": "persisted"},
    "Balanced": {"durability": "replicated", "messages_required_to_save": 100},
    "Relaxed": {"durability": "replicated"},
    "Custom": {},
}


def _durability_options(durability: Mapping[str, Any]) -> dict[str, OptionValue]:
    options = dict(_PROFILES[durability["profile"]])
    if "enforceFsync" in durability:
        options["enforce_fsync"] = durability["enforceFsync"]
    if "flushMessages" in durability:
        options["messages_required_to_save"] = durability["flushMessages"]
    if "flushBytes" in durability:
        flush_bytes = units.quantity_bytes(durability["flushBytes"])
        options["size_of_messages_required_to_save"] = flush_bytes
    return options


def _topic_connectors(kind: type[C], value: Mapping[str, Any]) -> tuple[C, ...]:
    """Those of one kind that a topic lists."""
    topic, uid = _key(value), value["metadata"].get("uid", "")

    def key(entry: Mapping[str, Any]) -> Key:
        name = names.connector_name(topic.name, entry["name"], topic_uid=uid)
        return Key(topic.namespace, name)

    entries = value["spec"].get(f"{kind.word}s", ())
    return tuple(_connector(kind, key(entry), topic, entry, "name") for entry in entries)


def _connector_object(kind: type[C], value: Mapping[str, Any]) -> C:
    key, spec = _key(value), value["spec"]
    return _connector(kind, key, _reference(spec["topicRef"], key), spec, "topicRef")


def _connector(kind: type[C], key: Key, topic: Key, fields: Mapping[str, Any], without: str) -> C:
    spec = {name: item for name, item in fields.items() if name != without}
    restart = spec["restart"]
    return kind(
        key=key,
        topic=topic,
        type=spec["type"],
        restart=Restart(restart["policy"], restart["maxRetries"], restart["backoffSeconds"]),
        is_suspended=spec["suspend"],
        spec=spec,
    )


def _user(value: Mapping[str, Any]) -> User:
    key, spec = _key(value), value["spec"]
    return User(
        key=key,
        broker=_reference(spec["brokerRef"], key),
        username=spec.get("username", key.name),
        is_active=spec["active"],
        deletion_policy=spec["deletionPolicy"],
        spec=spec,
    )
