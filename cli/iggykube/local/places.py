"""Sinks and sources of the files, where they stand in them, and by which names of the broker."""

from collections.abc import Iterator
from dataclasses import dataclass

from iggy_operator.documents import Document, FileProblem
from iggy_operator.resources import Connector, Key, Resources
from iggy_operator.validation import FieldPath


@dataclass(frozen=True, slots=True)
class ConnectorPlace:
    """A sink or source, where it stands, and the topic that it works for."""

    connector: Connector
    document: Document
    path: FieldPath
    stream_name: str
    topic_name: str

    def problem(self, field: str, message: str) -> FileProblem:
        """A problem at a field, such as `jdbc.url`."""
        return self.document.problem((*self.path, *filter(None, field.split("."))), message)

    def name_problem(self, message: str) -> FileProblem:
        """A problem with its name."""
        is_listed = self.document.kind != self.connector.kind
        path = (*self.path, "name") if is_listed else ("metadata", "name")
        return self.document.problem(path, message)


def connector_places(resources: Resources) -> Iterator[ConnectorPlace]:
    """All of them. What a topic or stream is called that stands elsewhere is not known: its key."""
    streams = {stream.key: stream.stream_name for stream in resources.streams}
    topics = {topic.key: topic for topic in resources.topics}
    for topic in resources.topics:
        document = document_of(resources, "IggyTopic", topic.key)
        stream = streams.get(topic.stream, topic.stream.name)
        listed: tuple[tuple[Connector, ...], ...] = (topic.sinks, topic.sources)
        for connectors in listed:
            for index, connector in enumerate(connectors):
                path = ("spec", f"{connector.word}s", index)
                yield ConnectorPlace(connector, document, path, stream, topic.topic_name)
    for connector in own_connectors(resources):
        document = document_of(resources, connector.kind, connector.key)
        found = topics.get(connector.topic)
        name = connector.topic.name if found is None else found.topic_name
        stream = "" if found is None else streams.get(found.stream, found.stream.name)
        yield ConnectorPlace(connector, document, ("spec",), stream or "unknown", name)


def own_connectors(resources: Resources) -> tuple[Connector, ...]:
    """Those that are documents of their own."""
    return (*resources.sinks, *resources.sources)


def document_of(resources: Resources, kind: str, key: Key) -> Document:
    """The document of an object that the files hold."""
    identity = (kind, key.namespace, key.name)
    return next(item for item in resources.documents if item.identity == identity)
