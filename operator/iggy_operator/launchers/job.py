"""One sink's job, whoever launches it: names, folders, the job's file, and what cannot be had."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.decide.sinks import Target, dead_letters, job_fields, loops, targets
from iggy_operator.desired.metadata import (
    MARK_CHARACTERS,
    SINK_LABEL,
    SINK_UID_LABEL,
    TOPIC_LABEL,
    Family,
    Manifest,
    Owner,
    labels,
    mark,
    without_defaults,
)
from iggy_operator.desired.release import Release
from iggy_operator.launchers import redrive
from iggy_operator.launchers.secrets import (
    CHECKPOINT_STORE,
    Mounted,
    block_name,
    mounted,
    with_folders,
)
from iggy_operator.names import NAME_CHARACTERS_MAX
from iggy_operator.resources import Sink
from iggy_operator.schema import schemas

APPLICATION_CHARACTERS_MAX: Final = 42
"""Spark and both operators append up to 21 characters, and their names may have 63."""
JOB_FOLDER: Final = "/etc/iggy-sink"
JOB_FILE: Final = "sink.json"
CHECKPOINT_PATH: Final = "/checkpoint"
LOGIN_FOLDER: Final = "/etc/iggy"
ALIVE_FILE: Final = "/tmp/iggy-sink-alive.json"
METRICS_PORT: Final = 9464
PROGRAM_IN_IMAGE: Final = "local:///"
"""How the address of a program begins that lies in the image, or on a volume."""

_MARK: Final = re.compile(rf"[0-9a-f]{{{MARK_CHARACTERS}}}")
_CLAIM_END: Final = "-checkpoint"  # as the folder is called in local mode
# Fields of a sink whose change does not concern the running job. What matters of the checkpoint and
# of the launcher is in the hash by other ways.
_NOT_ASKED: Final = ("checkpoint", "lag", "restart", "suspend", "userRef")
_MEMORY: Final = re.compile(r"([0-9]+)([kmgt]?)(?:i?b)?", re.IGNORECASE)
_KIB: Final = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


@dataclass(frozen=True, slots=True)
class Source:
    """What the job reads, by its names in the broker, and with which login."""

    address: str
    """Host and port of the broker's Service."""
    stream: str
    topic: str
    secret: str
    """Secret in the sink's namespace with the keys username and password."""


@dataclass(frozen=True, slots=True)
class SinkJob:
    """A sink and everything that its manifests depend on."""

    sink: Sink
    owner: Owner
    source: Source
    release: Release
    restart_at: str = ""
    """The annotation with which somebody asks for a restart."""
    redrive: str = ""
    """The annotation with which somebody asks for dead letters to be written again."""
    takes_new_topic: bool = False
    """Somebody knows that the topic is another one: the next start begins with it."""

    @property
    def name(self) -> str:
        """Of the application and, with an ending, of its other objects."""
        return application_name(self.sink.key.name, self.owner.uid)

    @property
    def file_name(self) -> str:
        """Of the ConfigMap with the job's file."""
        return f"{self.name}-job"

    @property
    def spark(self) -> Mapping[str, Any]:
        """The block `spark` of the sink."""
        block: Mapping[str, Any] = self.sink.spec["spark"]
        return block

    @property
    def claim(self) -> str | None:
        """The claim that holds the checkpoint. None: nothing keeps it."""
        volume = self.sink.spec.get("checkpoint", {}).get("volume")
        if volume is None:
            return None
        return str(volume.get("existingClaim") or claim_name(self.sink.key.name))

    @property
    def location(self) -> str | None:
        """Where the checkpoint lies, if not on a claim."""
        location = self.sink.spec.get("checkpoint", {}).get("location")
        return None if location is None else str(location)

    @property
    def secrets(self) -> tuple[Mounted, ...]:
        """Secrets that the sink names, and their folders."""
        return tuple(mounted(self.sink))

    @property
    def dead_letters(self) -> Target | None:
        """The topic that bad messages go to."""
        return dead_letters(self.sink, self.source.stream)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every other topic that the job sends to."""
        return targets(self.sink, self.source.stream)

    @property
    def family(self) -> Family:
        """Labels and owner of everything that belongs to the sink."""
        key, topic = self.sink.key, self.sink.topic.name
        own = {SINK_LABEL: key.name, SINK_UID_LABEL: self.owner.uid, TOPIC_LABEL: topic}
        return Family(key.namespace, labels("sink", key.name, own), self.owner)

    @property
    def is_bounded(self) -> bool:
        """Whether the job ends by itself, once it has what is there."""
        return bool(self.sink.spec["trigger"]["mode"] == "AvailableNow")


def application_name(sink: str, uid: str) -> str:
    """At most 42 characters, valid for Services; never the same for two sinks, nor for a new one
    of an old name. Running jobs hang on it: it can never be computed otherwise.
    """
    text = uid.replace("-", "").lower()[:MARK_CHARACTERS]
    end = "-" + (text if _MARK.fullmatch(text) else mark(uid))
    start = sink.replace(".", "-")
    start = start if start[:1].isalpha() else f"s{start}"
    return start[: APPLICATION_CHARACTERS_MAX - len(end)].rstrip("-") + end


def claim_name(sink: str) -> str:
    """Of a sink's checkpoint. Depends on the name alone: a new sink of it goes on there."""
    name = f"{sink}{_CLAIM_END}"
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    end = f"-{mark(sink)}{_CLAIM_END}"
    return sink[: NAME_CHARACTERS_MAX - len(end)].rstrip("-.") + end


def asked(job: SinkJob, launcher: str) -> object:
    """Everything of the resource that a running job depends on, without what a release adds."""
    node = schemas()["IggySink"].root["properties"]["spec"]
    spec = {name: value for name, value in job.sink.spec.items() if name not in _NOT_ASKED}
    spec["spark"] = {name: value for name, value in job.spark.items() if name != "launcher"}
    source = job.source
    return {
        "spec": without_defaults(spec, node),
        "source": [source.address, source.stream, source.topic, source.secret],
        "checkpoint": job.claim if job.location is None else _place(job, node),
        "launcher": launcher,
        **({"redrive": job.redrive} if job.redrive else {}),
    }


def _place(job: SinkJob, node: Manifest) -> object:
    """Where a checkpoint in an object store is, and how it is reached."""
    checkpoint = {name: job.sink.spec["checkpoint"].get(name) for name in ("location", "s3")}
    given = {name: value for name, value in checkpoint.items() if value is not None}
    return without_defaults(given, node["properties"]["checkpoint"])


def job_file(job: SinkJob) -> Manifest:
    """What the job is given to read. It says where secrets lie, and holds none."""
    driver = job.spark["driver"]
    spark = {
        "driver": {"cores": driver["cores"], "memory": f"{mebibytes(driver['memory'])}m"},
        "conf": dict(job.spark.get("conf", {})),
    }
    return {
        "name": str(job.sink.key),
        "uid": job.owner.uid,
        "broker": {"address": job.source.address, "credentialsPath": LOGIN_FOLDER},
        "stream": job.source.stream,
        "topic": job.source.topic,
        "sink": {**job_fields(job.sink), **_block(job), "spark": spark, **_new_topic(job)},
        # A folder of its own: the root of a volume may hold `lost+found`, or another sink.
        "checkpoint": f"{CHECKPOINT_PATH}/{job.sink.key.name}",
        **_stored_checkpoint(job),
        "once": job.is_bounded,
        "aliveFile": ALIVE_FILE,
        "metricsPort": METRICS_PORT,
        **_redrive(job),
    }


def _redrive(job: SinkJob) -> Manifest:
    """A sink without dead letters has none to write again."""
    is_asked = job.redrive and job.dead_letters is not None
    return {"redrive": redrive.block(job.redrive)} if is_asked else {}


def _block(job: SinkJob) -> Manifest:
    """The block of the sink's type, with places of logins in place of Secrets."""
    name = block_name(job.sink)
    block = job.sink.spec.get(name)
    return {name: with_folders(block, name, _folders(job))} if block else {}


def _folders(job: SinkJob) -> dict[str, str]:
    return {secret.field: secret.folder for secret in job.secrets}


def _stored_checkpoint(job: SinkJob) -> Manifest:
    """Fields of the job's file for a checkpoint in an object store."""
    if job.location is None:
        return {}
    block = job.sink.spec["checkpoint"].get("s3")
    if not block:
        return {"checkpoint": job.location}
    store = with_folders(block, CHECKPOINT_STORE, _folders(job))
    return {"checkpoint": job.location, "checkpointStore": store}


def _new_topic(job: SinkJob) -> Manifest:
    return {"onTopicRecreated": "Restart"} if job.takes_new_topic else {}


def mebibytes(text: str) -> int:
    """Spark's way to write memory: 1g, 512m, 1024 (which are MiB). Raises ValueError otherwise."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount of memory, such as 512m or 2g")
    kib = int(match[1]) * _KIB[match[2].lower() or "m"]
    return max(1, -(-kib // _KIB["m"]))


def problems(job: SinkJob) -> Iterator[str]:
    """What of the sink cannot be had in a cluster: field and way out, a sentence each."""
    try:
        redrive.block(job.redrive)
    except ValueError as error:
        yield f"annotation redrive: {error}"
    for field, text in loops(job.sink, job.source.stream, job.source.topic):
        yield f"{field}: {text}"
    program = job.sink.spec.get("custom", {}).get("mainApplicationFile", PROGRAM_IN_IMAGE)
    if not program.startswith(PROGRAM_IN_IMAGE):
        yield (
            f"custom.mainApplicationFile: {program} is not in the image: put it there, or on a "
            "volume of spark.podTemplate, and write local:///folder/program.py"
        )
    for part in ("driver", "executor"):
        overhead = job.spark[part].get("memoryOverhead")
        if overhead is not None and not _MEMORY.fullmatch(overhead):
            yield f"spark.{part}.memoryOverhead: {overhead!r} is no amount of memory, such as 512m"
