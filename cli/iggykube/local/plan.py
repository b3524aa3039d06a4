"""From resources to processes, folders and environment. Pure.

What a laptop cannot do is refused here, before anything is started, at the place in the file.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iggy_operator.decide.sinks import job_fields
from iggy_operator.documents import Document, DocumentErrors, FileProblem
from iggy_operator.resources import Key, Resources, Sink, Stream, Topic
from iggy_operator.validation import FieldPath, suggestion
from iggykube.local.folders import ROOT_USERNAME, Folders, Ports

SINK_TYPES: Final = ("Console", "Files")
"""Sinks whose job can run here."""
CORES_MIN: Final = 2
CORES_MAX: Final = 64
USERNAME_VARIABLE: Final = "IGGY_USERNAME"
PASSWORD_VARIABLE: Final = "IGGY_PASSWORD"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink's job."""

    sink: Sink
    stream_name: str
    topic_name: str
    job: Mapping[str, Any]
    """What the job reads from its configuration file."""

    @property
    def name(self) -> str:
        """Under which offsets are stored and the user sees it."""
        return str(self.sink.key)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic, the stream it is in, its sinks."""

    topic: Topic
    stream: Stream
    sinks: tuple[SinkPlan, ...]


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """Everything that should run."""

    broker_environment: Mapping[str, str]
    streams: tuple[Stream, ...]
    topics: tuple[TopicPlan, ...]
    notes: tuple[str, ...]

    @property
    def sinks(self) -> tuple[SinkPlan, ...]:
        """All sinks of all topics."""
        return tuple(sink for topic in self.topics for sink in topic.sinks)


def make_plan(resources: Resources, folders: Folders, ports: Ports) -> LocalPlan:
    """What to run for these resources. Raises DocumentErrors for what cannot run here."""
    problems = [*reference_problems(resources), *_local_problems(resources, folders)]
    if problems:
        raise DocumentErrors(problems)
    streams = {stream.key: stream for stream in resources.streams}
    topics = []
    for topic in resources.topics:
        own = [sink for sink in resources.sinks if sink.topic == topic.key]
        stream = streams[topic.stream]
        sinks = tuple(
            SinkPlan(sink, stream.stream_name, topic.topic_name, {})
            for sink in (*topic.sinks, *own)
        )
        jobs = tuple(_with_job(plan, folders, ports) for plan in sinks)
        topics.append(TopicPlan(topic, stream, jobs))
    return LocalPlan(
        broker_environment=_broker_environment(resources),
        streams=resources.streams,
        topics=tuple(topics),
        notes=tuple(_notes(resources)),
    )


def _with_job(plan: SinkPlan, folders: Folders, ports: Ports) -> SinkPlan:
    job = {
        "name": plan.name,
        "broker": {
            "address": ports.address,
            "usernameEnv": USERNAME_VARIABLE,
            "passwordEnv": PASSWORD_VARIABLE,
        },
        "stream": plan.stream_name,
        "topic": plan.topic_name,
        "sink": _sink_fields(plan.sink, folders),
        "checkpoint": str(checkpoint_folder(plan.sink, folders)),
        "once": plan.sink.spec["trigger"]["mode"] == "AvailableNow",
    }
    return SinkPlan(plan.sink, plan.stream_name, plan.topic_name, job)


def _sink_fields(sink: Sink, folders: Folders) -> dict[str, Any]:
    fields = job_fields(sink)
    fields["spark"] = _spark_fields(sink.spec["spark"])
    if sink.type == "Files":
        path = str(files_folder(sink, folders))
        fields["files"] = {**fields["files"], "path": path}
    return fields


def _spark_fields(spark: Mapping[str, Any]) -> dict[str, Any]:
    """Here the driver does all work: it gets the cores that executors would have."""
    driver, executor = spark["driver"], spark["executor"]
    wanted = max(CORES_MIN, driver["cores"], executor["cores"] * executor["instances"])
    cores = min(wanted, os.cpu_count() or CORES_MIN, CORES_MAX)
    return {"driver": {"cores": cores, "memory": driver["memory"]}, "conf": spark.get("conf", {})}


def files_folder(sink: Sink, folders: Folders) -> Path:
    """Where a Files sink writes: a relative path lies below the data directory."""
    return folders.files / str(sink.spec["files"]["path"])


def checkpoint_folder(sink: Sink, folders: Folders) -> Path:
    """In place of the checkpoint's claim; an existing claim is shared, with a folder per sink."""
    volume = sink.spec.get("checkpoint", {}).get("volume", {})
    base = folders.claims / sink.key.namespace
    if claim := volume.get("existingClaim"):
        return base / str(claim) / sink.key.name
    return base / f"{sink.key.name}-checkpoint"


def broker_variables(folders: Folders, ports: Ports, password: str) -> dict[str, str]:
    """What every local broker is told through its environment."""
    return {
        "IGGY_ROOT_USERNAME": ROOT_USERNAME,
        "IGGY_ROOT_PASSWORD": password,
        "IGGY_SYSTEM_PATH": str(folders.broker),
        "IGGY_TCP_ADDRESS": ports.address,
        "IGGY_MONITORING_ADDRESS": ports.monitoring_address,
        # An unknown key of `spec.config` ends the start: a warning in a log would go unseen.
        "IGGY_CONFIG_STRICT": "true",
    }


def _broker_environment(resources: Resources) -> dict[str, str]:
    environment: dict[str, str] = {}
    for broker in resources.brokers:
        if broker.shards_count is not None:
            environment["IGGY_SYSTEM_SHARDING_CPU_ALLOCATION"] = str(broker.shards_count)
        for key, value in broker.config.items():
            environment["IGGY_" + key.upper().replace(".", "_")] = value
    return environment


def _notes(resources: Resources) -> Iterator[str]:
    for skipped in resources.skipped:
        yield f"left alone: {skipped}"
    for user in resources.users:
        yield f"IggyUser {user.key} is not made here: local mode works as root"


def _document(resources: Resources, kind: str, key: Key) -> Document:
    identity = (kind, key.namespace, key.name)
    return next(item for item in resources.documents if item.identity == identity)


def reference_problems(resources: Resources) -> Iterator[FileProblem]:
    """References to objects that stand in none of the files."""
    streams = [stream.key for stream in resources.streams]
    for topic in resources.topics:
        document = _document(resources, "IggyTopic", topic.key)
        if topic.stream not in streams:
            yield _unknown(document, ("spec", "streamRef", "name"), topic.stream, streams)
    topics = [topic.key for topic in resources.topics]
    for sink in resources.sinks:
        document = _document(resources, "IggySink", sink.key)
        if sink.topic not in topics:
            yield _unknown(document, ("spec", "topicRef", "name"), sink.topic, topics)


def _unknown(document: Document, path: FieldPath, key: Key, known: list[Key]) -> FileProblem:
    kind = "IggyStream" if "streamRef" in path else "IggyTopic"
    names = [str(item) for item in known]
    hint = suggestion(str(key), names) if names else f"add a document of kind {kind}"
    return document.problem(path, f"no {kind} of the name {key} in the files, {hint}")


def _local_problems(resources: Resources, folders: Folders) -> Iterator[FileProblem]:
    yield from _broker_problems(resources)
    yield from _name_problems(resources)
    for topic in resources.topics:
        document = _document(resources, "IggyTopic", topic.key)
        for index, sink in enumerate(topic.sinks):
            yield from _sink_problems(document, ("spec", "sinks", index), sink, folders)
    for sink in resources.sinks:
        document = _document(resources, "IggySink", sink.key)
        yield from _sink_problems(document, ("spec",), sink, folders)


def _broker_problems(resources: Resources) -> Iterator[FileProblem]:
    """Local mode runs one broker: everything must mean the same one."""
    for broker in resources.brokers:
        if broker.mode == "External":
            document = _document(resources, "IggyBroker", broker.key)
            message = "local mode runs its own broker: leave this document out"
            yield document.problem(("spec", "mode"), message)
    wanted = [(broker.key, "IggyBroker", broker.key) for broker in resources.brokers]
    wanted += [(stream.broker, "IggyStream", stream.key) for stream in resources.streams]
    for broker_key, kind, key in wanted:
        if broker_key != (first := wanted[0][0]):
            message = f"local mode runs one broker, and here are {first} and {broker_key}: use one"
            path = ("spec", "brokerRef") if kind == "IggyStream" else ("metadata", "name")
            yield _document(resources, kind, key).problem(path, message)
            return


def _name_problems(resources: Resources) -> Iterator[FileProblem]:
    """Two objects that mean the same entity in the broker."""
    seen: dict[tuple[str, ...], Key] = {}
    streams = {stream.key: stream.stream_name for stream in resources.streams}
    names = [("IggyStream", stream.key, (stream.stream_name,)) for stream in resources.streams]
    for topic in resources.topics:
        if topic.stream in streams:
            names.append(("IggyTopic", topic.key, (streams[topic.stream], topic.topic_name)))  # type: ignore[arg-type]
    for kind, key, name in names:
        first = seen.setdefault(name, key)
        if first != key:
            message = f"{key} and {first} both stand for {'/'.join(name)} in the broker: remove one"
            yield _document(resources, kind, key).problem(("metadata", "name"), message)


def _sink_problems(
    document: Document, path: FieldPath, sink: Sink, folders: Folders
) -> Iterator[FileProblem]:
    if sink.type not in SINK_TYPES:
        known = " and ".join(SINK_TYPES)
        message = f"sinks of type {sink.type} cannot run yet: {known} can"
        yield document.problem((*path, "type"), message)
    checkpoint = sink.spec.get("checkpoint", {})
    if "location" in checkpoint:
        message = "local mode keeps checkpoints below the data directory: use volume: {}"
        yield document.problem((*path, "checkpoint", "location"), message)
    if sink.type == "Files":
        yield from _path_problems(document, (*path, "files", "path"), sink, folders)


def _path_problems(
    document: Document, path: FieldPath, sink: Sink, folders: Folders
) -> Iterator[FileProblem]:
    text = str(sink.spec["files"]["path"])
    if "://" in text:
        yield document.problem(
            path, "local mode writes into folders: give one, such as lake/orders"
        )
    elif not os.path.isabs(text):
        below = os.path.normpath(folders.files / text)
        if not below.startswith(str(folders.files) + os.sep):
            message = "a relative path must stay below the data directory: remove the dots"
            yield document.problem(path, message)
