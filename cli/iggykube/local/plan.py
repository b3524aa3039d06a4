"""From resources to processes, folders and environment. Pure.

What a laptop cannot do is refused here, before anything is started, at the place in the file.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from iggy_operator.decide.connectors import job_fields, loops
from iggy_operator.documents import Document, DocumentErrors, FileProblem
from iggy_operator.launchers.secrets import CHECKPOINT_STORE, block_name, mounted, with_folders
from iggy_operator.resources import Key, Resources, Sink, Stream, Topic
from iggy_operator.secret_documents import Secret
from iggy_operator.validation import FieldPath, suggestion
from iggykube.local.folders import ROOT_USERNAME, Folders, Ports

PATH_TYPES: Final = ("Delta", "Files")
"""Sinks that write into a folder, or into an object store."""
CORES_MIN: Final = 2
CORES_MAX: Final = 64
USERNAME_VARIABLE: Final = "IGGY_USERNAME"
PASSWORD_VARIABLE: Final = "IGGY_PASSWORD"

_ANY_PORTS: Final = Ports()


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
    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    """Those that sinks name: they become folders."""

    @property
    def sinks(self) -> tuple[SinkPlan, ...]:
        """All sinks of all topics."""
        return tuple(sink for topic in self.topics for sink in topic.sinks)


def make_plan(resources: Resources, folders: Folders, ports: Ports) -> LocalPlan:
    """What to run for these resources. Raises DocumentErrors for what cannot run here."""
    problems = [
        *reference_problems(resources),
        *secret_problems(resources),
        *_local_problems(resources, folders),
        *job_problems(resources, folders, runs_here=True),
    ]
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
        secrets=tuple(_named_secrets(resources)),
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
        **_checkpoint(plan.sink, folders),
        "once": plan.sink.spec["trigger"]["mode"] == "AvailableNow",
    }
    return SinkPlan(plan.sink, plan.stream_name, plan.topic_name, job)


def _sink_fields(sink: Sink, folders: Folders) -> dict[str, Any]:
    fields = job_fields(sink)
    fields["spark"] = _spark_fields(sink.spec["spark"])
    name = block_name(sink)
    if name in fields:
        fields[name] = with_folders(fields[name], name, _secret_folders(sink, folders))
    if sink.type in PATH_TYPES:
        fields[name]["path"] = written_path(sink, folders)
    return fields


def _secret_folders(sink: Sink, folders: Folders) -> dict[str, str]:
    """Where the job finds each Secret, by the field that names it."""
    namespace = sink.key.namespace
    return {item.field: str(folders.secret(namespace, item.name)) for item in mounted(sink)}


def _checkpoint(sink: Sink, folders: Folders) -> dict[str, Any]:
    """Where the job keeps its place, and how that store is reached."""
    block = sink.spec.get("checkpoint", {})
    if "location" not in block:
        return {"checkpoint": str(checkpoint_folder(sink, folders))}
    if "s3" not in block:
        return {"checkpoint": block["location"]}
    store = with_folders(block["s3"], CHECKPOINT_STORE, _secret_folders(sink, folders))
    return {"checkpoint": block["location"], "checkpointStore": store}


def _spark_fields(spark: Mapping[str, Any]) -> dict[str, Any]:
    """Here the driver does all work: it gets the cores that executors would have."""
    driver, executor = spark["driver"], spark["executor"]
    wanted = max(CORES_MIN, driver["cores"], executor["cores"] * executor["instances"])
    cores = min(wanted, os.cpu_count() or CORES_MIN, CORES_MAX)
    return {"driver": {"cores": cores, "memory": driver["memory"]}, "conf": spark.get("conf", {})}


def written_path(sink: Sink, folders: Folders) -> str:
    """Where a sink of PATH_TYPES writes: a relative path lies below the data directory."""
    path = str(sink.spec[block_name(sink)]["path"])
    return path if _is_address(path) else str(folders.files / path)


def _is_address(path: str) -> bool:
    return "://" in path


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


_CLUSTER_ONLY: Final = ("packages", "pyFiles", "env")  # of `spark`: what somebody might rely on


def _notes(resources: Resources) -> Iterator[str]:
    for skipped in resources.skipped:
        yield f"left alone: {skipped}"
    for user in resources.users:
        yield f"IggyUser {user.key} is not made here: local mode works as root"
    for sink in (*resources.sinks, *(sink for topic in resources.topics for sink in topic.sinks)):
        for name in _CLUSTER_ONLY:
            if sink.spec["spark"].get(name):
                yield f"sink {sink.key}: spark.{name} is for a cluster, and left out here"


@dataclass(frozen=True, slots=True)
class SinkPlace:
    """A sink of the files, where it stands in them, and what it reads by the broker's names."""

    sink: Sink
    document: Document
    path: FieldPath
    stream_name: str
    topic_name: str

    def problem(self, field: str, message: str) -> FileProblem:
        """A problem at a field of the sink, such as `jdbc.url`."""
        return self.document.problem((*self.path, *filter(None, field.split("."))), message)


def sink_places(resources: Resources) -> Iterator[SinkPlace]:
    """All sinks. What a topic or stream is called that stands elsewhere is not known: its key."""
    streams = {stream.key: stream.stream_name for stream in resources.streams}
    topics = {topic.key: topic for topic in resources.topics}
    for topic in resources.topics:
        document = _document(resources, "IggyTopic", topic.key)
        stream = streams.get(topic.stream, topic.stream.name)
        for index, sink in enumerate(topic.sinks):
            yield SinkPlace(sink, document, ("spec", "sinks", index), stream, topic.topic_name)
    for sink in resources.sinks:
        document = _document(resources, "IggySink", sink.key)
        found = topics.get(sink.topic)
        name = sink.topic.name if found is None else found.topic_name
        stream = "" if found is None else streams.get(found.stream, found.stream.name)
        yield SinkPlace(sink, document, ("spec",), stream or "unknown", name)


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
    for place in sink_places(resources):
        yield from _sink_problems(place, folders)


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


def _sink_problems(place: SinkPlace, folders: Folders) -> Iterator[FileProblem]:
    if place.sink.type not in PATH_TYPES:
        return
    name = block_name(place.sink)
    text = str(place.sink.spec[name]["path"])
    if not _is_address(text) and not os.path.isabs(text):
        below = os.path.normpath(folders.files / text)
        if not below.startswith(str(folders.files) + os.sep):
            message = "a relative path must stay below the data directory: remove the dots"
            yield place.problem(f"{name}.path", message)


def _named_secrets(resources: Resources) -> Iterator[Secret]:
    """Those of the files that sinks name, each once."""
    sinks = [place.sink for place in sink_places(resources)]
    named = {(sink.key.namespace, item.name) for sink in sinks for item in mounted(sink)}
    yield from (item for item in resources.secrets if (item.namespace, item.name) in named)


def secret_problems(resources: Resources) -> Iterator[FileProblem]:
    """Secrets that sinks name and that stand in none of the files, or lack a key."""
    known = {(item.namespace, item.name): item for item in resources.secrets}
    for place in sink_places(resources):
        for item in mounted(place.sink):
            namespace = place.sink.key.namespace
            secret = known.get((namespace, item.name))
            if secret is None:
                fix = f"add one of kind Secret to the files, in namespace {namespace}"
                text = f"there is no Secret {item.name}: {fix}"
            elif missing := item.lacks(set(secret.values)):
                text = f"Secret {item.name} lacks {missing}: add what is missing"
            else:
                continue
            yield place.problem(item.field, text)


def job_problems(resources: Resources, folders: Folders, *, runs_here: bool) -> list[FileProblem]:
    """What the sinks' jobs would refuse when they start. Starts none, and no Spark.

    `runs_here`: on this machine, where libraries of theirs may be missing.
    """
    places = list(sink_places(resources))
    if not places:
        return []
    # Its libraries take a second to import: only who has sinks waits for them.
    from iggykube.local.job_checks import refusal

    problems = []
    for place in places:
        sink, stream, topic = place.sink, place.stream_name, place.topic_name
        problems += [place.problem(name, text) for name, text in loops(sink, stream, topic)]
        plan = _with_job(SinkPlan(sink, stream, topic, {}), folders, _ANY_PORTS)
        if (refused := refusal(plan.job, runs_here=runs_here)) is not None:
            problems.append(place.problem(*refused))
    return problems
