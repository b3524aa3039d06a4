"""What is wrong with resources for a run on this machine, told at its place in the files.

Everything here is found before anything is started.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from iggy_operator.decide.connectors import loops
from iggy_operator.documents import Document, FileProblem
from iggy_operator.launchers.secrets import block_name, mounted
from iggy_operator.resources import Connector, Key, Resources
from iggy_operator.validation import FieldPath, suggestion
from iggykube.local.broker_settings import broker_secret_problems, setting_problems
from iggykube.local.folders import Folders, Ports
from iggykube.local.jobs import PATH_TYPES, is_address, job_file
from iggykube.local.places import (
    ConnectorPlace,
    connector_places,
    document_of,
    own_connectors,
)

_ANY_PORTS: Final = Ports()


def all_problems(resources: Resources, folders: Folders) -> list[FileProblem]:
    """Everything that keeps these resources from running here."""
    return [
        *reference_problems(resources),
        *secret_problems(resources),
        *_broker_problems(resources),
        *setting_problems(resources),
        *_name_problems(resources),
        *_path_problems(connector_places(resources), folders),
        *job_problems(resources, folders, runs_here=True),
    ]


def reference_problems(resources: Resources) -> Iterator[FileProblem]:
    """References to objects that stand in none of the files."""
    streams = [stream.key for stream in resources.streams]
    for topic in resources.topics:
        document = document_of(resources, "IggyTopic", topic.key)
        if topic.stream not in streams:
            yield _unknown(document, ("spec", "streamRef", "name"), topic.stream, streams)
    topics = [topic.key for topic in resources.topics]
    for connector in own_connectors(resources):
        document = document_of(resources, connector.kind, connector.key)
        if connector.topic not in topics:
            yield _unknown(document, ("spec", "topicRef", "name"), connector.topic, topics)


def _unknown(document: Document, path: FieldPath, key: Key, known: list[Key]) -> FileProblem:
    kind = "IggyStream" if "streamRef" in path else "IggyTopic"
    names = [str(item) for item in known]
    hint = suggestion(str(key), names) if names else f"add a document of kind {kind}"
    return document.problem(path, f"no {kind} of the name {key} in the files, {hint}")


def secret_problems(resources: Resources) -> Iterator[FileProblem]:
    """Secrets that are named and that stand in none of the files, or lack a key."""
    yield from broker_secret_problems(resources)
    known = {(item.namespace, item.name): item for item in resources.secrets}
    for place in connector_places(resources):
        for item in mounted(place.connector):
            namespace = place.connector.key.namespace
            secret = known.get((namespace, item.name))
            if secret is None:
                fix = f"add one of kind Secret to the files, in namespace {namespace}"
                text = f"there is no Secret {item.name}: {fix}"
            elif missing := item.lacks(set(secret.values)):
                text = f"Secret {item.name} lacks {missing}: add what is missing"
            else:
                continue
            yield place.problem(item.field, text)


def _broker_problems(resources: Resources) -> Iterator[FileProblem]:
    """Local mode runs one broker: everything must mean the same one."""
    for broker in resources.brokers:
        if broker.mode == "External":
            document = document_of(resources, "IggyBroker", broker.key)
            message = "local mode runs its own broker: leave this document out"
            yield document.problem(("spec", "mode"), message)
    wanted = [(broker.key, "IggyBroker", broker.key) for broker in resources.brokers]
    wanted += [(stream.broker, "IggyStream", stream.key) for stream in resources.streams]
    for broker_key, kind, key in wanted:
        if broker_key != (first := wanted[0][0]):
            message = f"local mode runs one broker, and here are {first} and {broker_key}: use one"
            path = ("spec", "brokerRef") if kind == "IggyStream" else ("metadata", "name")
            yield document_of(resources, kind, key).problem(path, message)
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
            path = ("metadata", "name")
            yield document_of(resources, kind, key).problem(path, message)


def _path_problems(places: Iterable[ConnectorPlace], folders: Folders) -> Iterator[FileProblem]:
    for place in places:
        if place.connector.type not in PATH_TYPES:
            continue
        name = block_name(place.connector)
        text = str(place.connector.spec[name]["path"])
        if is_address(text) or os.path.isabs(text):
            continue
        below = os.path.normpath(folders.files / text)
        if not below.startswith(str(folders.files) + os.sep):
            message = "a relative path must stay below the data directory: remove the dots"
            yield place.problem(f"{name}.path", message)


def job_problems(resources: Resources, folders: Folders, *, runs_here: bool) -> list[FileProblem]:
    """What jobs would refuse when they start. Starts none, and no Spark.

    `runs_here`: on this machine, where libraries of theirs may be missing.
    """
    places = list(connector_places(resources))
    if not places:
        return []
    # Its libraries take a second to import: only who has jobs waits for them.
    from iggykube.local.job_checks import refusal

    problems = list(_namesakes(places))
    for place in places:
        connector, stream, topic = place.connector, place.stream_name, place.topic_name
        problems += [place.problem(name, text) for name, text in loops(connector, stream, topic)]
        job = job_file(connector, stream, topic, folders, _ANY_PORTS)
        if (refused := refusal(job, runs_here=runs_here)) is not None:
            problems.append(place.problem(*refused))
    return problems


def _namesakes(places: Iterable[ConnectorPlace]) -> Iterator[FileProblem]:
    """A name is that of a consumer group and of a checkpoint: nobody shares it."""
    seen: dict[Key, Connector] = {}
    for place in places:
        key = place.connector.key
        first = seen.setdefault(key, place.connector)
        if first is not place.connector:
            names = "names are those of consumer groups and checkpoints"
            yield place.name_problem(f"{key} is also a {first.word}, and {names}: choose another")
