"""From resources to processes, folders and environment. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from iggy_operator.documents import DocumentErrors
from iggy_operator.launchers.secrets import mounted
from iggy_operator.resources import Connector, Resources, Stream, Topic
from iggy_operator.secret_documents import Secret
from iggykube.local.broker_settings import (
    RestorePlan,
    broker_settings,
    named_secrets,
    restore_plan,
)
from iggykube.local.certificate import LocalTls, local_tls
from iggykube.local.folders import ROOT_USERNAME, Folders, Ports
from iggykube.local.jobs import job_file
from iggykube.local.places import connector_places, own_connectors
from iggykube.local.problems import all_problems


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The job of one sink or source."""

    connector: Connector
    stream_name: str
    topic_name: str
    job: Mapping[str, Any]
    """What the job reads from its configuration file."""

    @property
    def name(self) -> str:
        """The user sees it, and the job's consumer group has it."""
        return str(self.connector.key)

    @property
    def title(self) -> str:
        """What it is, and its name."""
        return f"{self.connector.word} {self.name}"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic, the stream it is in, its sinks and sources."""

    topic: Topic
    stream: Stream
    jobs: tuple[JobPlan, ...]


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """Everything that should run."""

    broker_environment: Mapping[str, str] = field(repr=False)
    """May hold logins."""
    streams: tuple[Stream, ...]
    topics: tuple[TopicPlan, ...]
    notes: tuple[str, ...]
    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    """Those that the broker, sinks and sources name: they become folders."""
    restore: RestorePlan | None = None
    """What an empty broker's directory is filled from."""
    tls: LocalTls | None = None
    """How the broker is spoken to; None: in plain text."""

    @property
    def jobs(self) -> tuple[JobPlan, ...]:
        """Those of all topics."""
        return tuple(job for topic in self.topics for job in topic.jobs)


def make_plan(
    resources: Resources, folders: Folders, ports: Ports, *, running: LocalPlan | None = None
) -> LocalPlan:
    """What to run for these resources. Raises DocumentErrors for what cannot run here.

    `running`: the plan of the broker that runs. It is spoken to as it was until it starts anew.
    """
    if problems := all_problems(resources, folders):
        raise DocumentErrors(problems)
    tls = _tls(resources, folders, running)
    streams = {stream.key: stream for stream in resources.streams}
    topics = []
    for topic in resources.topics:
        own = [item for item in own_connectors(resources) if item.topic == topic.key]
        names = streams[topic.stream].stream_name, topic.topic_name
        jobs = tuple(
            JobPlan(item, *names, job_file(item, *names, folders, ports, tls))
            for item in (*topic.sinks, *topic.sources, *own)
        )
        topics.append(TopicPlan(topic, streams[topic.stream], jobs))
    return LocalPlan(
        broker_environment=_broker_environment(resources, folders),
        streams=resources.streams,
        topics=tuple(topics),
        notes=tuple(_notes(resources)),
        secrets=tuple(_named_secrets(resources)),
        restore=_restore(resources, folders),
        tls=tls,
    )


def _tls(resources: Resources, folders: Folders, running: LocalPlan | None) -> LocalTls | None:
    wanted = local_tls(resources, folders)
    if running is None:
        return wanted
    is_same = wanted is not None and running.tls is not None and wanted.folder == running.tls.folder
    return wanted if is_same else running.tls


def broker_variables(folders: Folders, ports: Ports, password: str) -> dict[str, str]:
    """What every local broker is told through its environment."""
    return {
        "IGGY_ROOT_USERNAME": ROOT_USERNAME,
        "IGGY_ROOT_PASSWORD": password,
        "IGGY_SYSTEM_PATH": str(folders.broker),
        "IGGY_TCP_ADDRESS": ports.address,
        "IGGY_HTTP_ADDRESS": ports.http_address,
        "IGGY_MONITORING_ADDRESS": ports.monitoring_address,
        # The profile Balanced of a topic promises a second.
        "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "1 s",
        # Their ports are fixed, and instances run side by side; `listeners` turns them on.
        "IGGY_WEBSOCKET_ENABLED": "false",
        "IGGY_QUIC_ENABLED": "false",
        # An unknown key of `spec.config` ends the start: a warning in a log would go unseen.
        "IGGY_CONFIG_STRICT": "true",
    }


def _restore(resources: Resources, folders: Folders) -> RestorePlan | None:
    found = (restore_plan(one, folders, _secrets(resources)) for one in resources.brokers)
    return next(filter(None, found), None)


def _secrets(resources: Resources) -> Mapping[tuple[str, str], Secret]:
    return {(item.namespace, item.name): item for item in resources.secrets}


def _broker_environment(resources: Resources, folders: Folders) -> dict[str, str]:
    environment: dict[str, str] = {}
    for broker in resources.brokers:
        if broker.shards_count is not None:
            environment["IGGY_SYSTEM_SHARDING_CPU_ALLOCATION"] = str(broker.shards_count)
        for key, value in broker.config.items():
            environment["IGGY_" + key.upper().replace(".", "_")] = value
        environment |= broker_settings(broker, folders, _secrets(resources))
    return environment


_CLUSTER_ONLY: Final = ("pyFiles", "env")  # of `spark`: what somebody might rely on


def _notes(resources: Resources) -> Iterator[str]:
    for skipped in resources.skipped:
        yield f"left alone: {skipped}"
    for user in resources.users:
        yield f"IggyUser {user.key} is not made here: local mode works as root"
    for place in connector_places(resources):
        connector = place.connector
        for name in _CLUSTER_ONLY:
            if connector.spec["spark"].get(name):
                title = f"{connector.word} {connector.key}"
                yield f"{title}: spark.{name} is for a cluster, and left out here"


def _named_secrets(resources: Resources) -> Iterator[Secret]:
    """Those of the files that somebody names, each once."""
    connectors = [place.connector for place in connector_places(resources)]
    named = {(one.key.namespace, item.name) for one in connectors for item in mounted(one)}
    named |= {
        (one.key.namespace, item.name) for one in resources.brokers for item in named_secrets(one)
    }
    yield from (item for item in resources.secrets if (item.namespace, item.name) in named)
