"""The job of one sink or source, whoever launches it: names, folders, its file, what is refused."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.decide.connectors import Target, dead_letters, job_fields, loops, targets
from iggy_operator.desired.metadata import (
    MARK_CHARACTERS,
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
from iggy_operator.names import CA_KEY, NAME_CHARACTERS_MAX
from iggy_operator.resources import Connector, Sink
from iggy_operator.schema import schemas

APPLICATION_CHARACTERS_MAX: Final = 42
"""Spark and both operators append up to 21 characters, and their names may have 63."""
JOB_FOLDER: Final = "/etc/iggy-job"
JOB_FILE: Final = "job.json"
CHECKPOINT_PATH: Final = "/checkpoint"
LOGIN_FOLDER: Final = "/etc/iggy"
ALIVE_FILE: Final = "/tmp/iggy-job-alive.json"
METRICS_PORT: Final = 9464
PROGRAM_IN_IMAGE: Final = "local:///"
"""How the address of a program begins that lies in the image, or on a volume."""

_MARK: Final = re.compile(rf"[0-9a-f]{{{MARK_CHARACTERS}}}")
_CLAIM_END: Final = "-checkpoint"  # as the folder is called in local mode
# Fields whose change does not concern the running job. What matters of the checkpoint and
# of the launcher is in the hash by other ways.
_NOT_ASKED: Final = ("checkpoint", "lag", "restart", "suspend", "userRef")
_MEMORY: Final = re.compile(r"([0-9]+)([kmgt]?)(?:i?b)?", re.IGNORECASE)
_KIB: Final = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


@dataclass(frozen=True, slots=True)
class Encryption:
    """How the job checks that the broker is the one: by TLS."""

    has_authority: bool
    """The authority is in the Secret with the login; else those of the image count."""
    server_name: str = ""
    """The certificate's, where it is another one than the address has."""


@dataclass(frozen=True, slots=True)
class Access:
    """The topic that the job reads or fills, by its names in the broker, and with which login."""

    address: str
    """Host and port of the broker's Service."""
    stream: str
    topic: str
    secret: str
    """Secret in the connector's namespace with the keys username and password."""
    tls: Encryption | None = None
    """None: nothing is encrypted."""


@dataclass(frozen=True, slots=True)
class ConnectorJob:
    """A sink or source, and everything that its manifests depend on."""

    connector: Connector
    owner: Owner
    access: Access
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
        return application_name(self.connector.key.name, self.owner.uid)

    @property
    def file_name(self) -> str:
        """Of the ConfigMap with the job's file."""
        return f"{self.name}-job"

    @property
    def spark(self) -> Mapping[str, Any]:
        """The block `spark` of the resource."""
        block: Mapping[str, Any] = self.connector.spec["spark"]
        return block

    @property
    def claim(self) -> str | None:
        """The claim that holds the checkpoint. None: nothing keeps it."""
        volume = self.connector.spec.get("checkpoint", {}).get("volume")
        if volume is None:
            return None
        return str(volume.get("existingClaim") or claim_name(self.connector.key.name))

    @property
    def location(self) -> str | None:
        """Where the checkpoint lies, if not on a claim."""
        location = self.connector.spec.get("checkpoint", {}).get("location")
        return None if location is None else str(location)

    @property
    def secrets(self) -> tuple[Mounted, ...]:
        """Secrets that the resource names, and their folders."""
        return tuple(mounted(self.connector))

    @property
    def dead_letters(self) -> Target | None:
        """The topic that bad messages go to."""
        return dead_letters(self.connector, self.access.stream)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every topic that the job sends to."""
        return targets(self.connector, self.access.stream, self.access.topic)

    @property
    def family(self) -> Family:
        """Labels and owner of everything that is made for it."""
        connector, key = self.connector, self.connector.key
        own = {
            connector.label: key.name,
            connector.uid_label: self.owner.uid,
            TOPIC_LABEL: connector.topic.name,
        }
        return Family(key.namespace, labels(connector.word, key.name, own), self.owner)

    @property
    def is_bounded(self) -> bool:
        """Whether the job ends by itself, once it has what is there."""
        return bool(self.connector.spec["trigger"]["mode"] == "AvailableNow")


def application_name(name: str, uid: str) -> str:
    """At most 42 characters, valid for Services; never the same for two objects, nor for a new one
    of an old name. Running jobs hang on it: it can never be computed otherwise.
    """
    text = uid.replace("-", "").lower()[:MARK_CHARACTERS]
    end = "-" + (text if _MARK.fullmatch(text) else mark(uid))
    start = name.replace(".", "-")
    start = start if start[:1].isalpha() else f"s{start}"
    return start[: APPLICATION_CHARACTERS_MAX - len(end)].rstrip("-") + end


def claim_name(name: str) -> str:
    """Of a checkpoint. Depends on the name alone: a new object of that name goes on there."""
    whole = f"{name}{_CLAIM_END}"
    if len(whole) <= NAME_CHARACTERS_MAX:
        return whole
    end = f"-{mark(name)}{_CLAIM_END}"
    return name[: NAME_CHARACTERS_MAX - len(end)].rstrip("-.") + end


def asked(job: ConnectorJob, launcher: str) -> object:
    """Everything of the resource that a running job depends on, without what a release adds."""
    node = schemas()[job.connector.kind].root["properties"]["spec"]
    spec = {name: value for name, value in job.connector.spec.items() if name not in _NOT_ASKED}
    spec["spark"] = {name: value for name, value in job.spark.items() if name != "launcher"}
    access = job.access
    return {
        "spec": without_defaults(spec, node),
        # Called so for ever: hashes of running jobs hang on it.
        "source": [access.address, access.stream, access.topic, access.secret, *_tls_words(access)],
        "checkpoint": job.claim if job.location is None else _place(job, node),
        "launcher": launcher,
        **({"redrive": job.redrive} if job.redrive else {}),
    }


def _tls_words(access: Access) -> list[str]:
    tls = access.tls
    return [] if tls is None else ["tls", tls.server_name, str(tls.has_authority)]


def _broker(access: Access) -> Manifest:
    """The broker's block of the job's file."""
    found: Manifest = {"address": access.address, "credentialsPath": LOGIN_FOLDER}
    if (tls := access.tls) is not None:
        authority = {"caPath": f"{LOGIN_FOLDER}/{CA_KEY}"} if tls.has_authority else {}
        found["tls"] = authority | ({"serverName": tls.server_name} if tls.server_name else {})
    return found


def _place(job: ConnectorJob, node: Manifest) -> object:
    """Where a checkpoint in an object store is, and how it is reached."""
    checkpoint = {name: job.connector.spec["checkpoint"].get(name) for name in ("location", "s3")}
    given = {name: value for name, value in checkpoint.items() if value is not None}
    return without_defaults(given, node["properties"]["checkpoint"])


def job_file(job: ConnectorJob) -> Manifest:
    """What the job is given to read. It says where secrets lie, and holds none."""
    driver = job.spark["driver"]
    spark = {
        "driver": {"cores": driver["cores"], "memory": f"{mebibytes(driver['memory'])}m"},
        "conf": dict(job.spark.get("conf", {})),
    }
    return {
        "name": str(job.connector.key),
        "broker": _broker(job.access),
        "stream": job.access.stream,
        "topic": job.access.topic,
        job.connector.word: {
            **job_fields(job.connector),
            **_block(job),
            "spark": spark,
            **_new_topic(job),
        },
        # A folder of its own: the root of a volume may hold `lost+found`, or another checkpoint.
        "checkpoint": f"{CHECKPOINT_PATH}/{job.connector.key.name}",
        **_stored_checkpoint(job),
        "once": job.is_bounded,
        "aliveFile": ALIVE_FILE,
        "metricsPort": METRICS_PORT,
        **_letters(job),
    }


def _letters(job: ConnectorJob) -> Manifest:
    """What a sink marks its dead letters with, and whether it writes them again, if it has any."""
    if not isinstance(job.connector, Sink):
        return {}
    is_asked = job.redrive and job.dead_letters is not None
    return {"uid": job.owner.uid, **({"redrive": redrive.block(job.redrive)} if is_asked else {})}


def _block(job: ConnectorJob) -> Manifest:
    """The block of its type, with places of logins in place of Secrets."""
    name = block_name(job.connector)
    block = job.connector.spec.get(name)
    return {name: with_folders(block, name, _folders(job))} if block else {}


def _folders(job: ConnectorJob) -> dict[str, str]:
    return {secret.field: secret.folder for secret in job.secrets}


def _stored_checkpoint(job: ConnectorJob) -> Manifest:
    """Fields of the job's file for a checkpoint in an object store."""
    if job.location is None:
        return {}
    block = job.connector.spec["checkpoint"].get("s3")
    if not block:
        return {"checkpoint": job.location}
    store = with_folders(block, CHECKPOINT_STORE, _folders(job))
    return {"checkpoint": job.location, "checkpointStore": store}


def _new_topic(job: ConnectorJob) -> Manifest:
    return {"onTopicRecreated": "Restart"} if job.takes_new_topic else {}


def mebibytes(text: str) -> int:
    """Spark's way to write memory: 1g, 512m, 1024 (which are MiB). Raises ValueError otherwise."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount of memory, such as 512m or 2g")
    kib = int(match[1]) * _KIB[match[2].lower() or "m"]
    return max(1, -(-kib // _KIB["m"]))


def problems(job: ConnectorJob) -> Iterator[str]:
    """What of the spec cannot be had in a cluster: field and way out, a sentence each."""
    try:
        redrive.block(job.redrive)
    except ValueError as error:
        yield f"annotation redrive: {error}"
    for field, text in loops(job.connector, job.access.stream, job.access.topic):
        yield f"{field}: {text}"
    program = job.connector.spec.get("custom", {}).get("mainApplicationFile", PROGRAM_IN_IMAGE)
    if not program.startswith(PROGRAM_IN_IMAGE):
        yield (
            f"custom.mainApplicationFile: {program} is not in the image: put it there, or on a "
            "volume of spark.podTemplate, and write local:///folder/program.py"
        )
    for part in ("driver", "executor"):
        overhead = job.spark[part].get("memoryOverhead")
        if overhead is not None and not _MEMORY.fullmatch(overhead):
            yield f"spark.{part}.memoryOverhead: {overhead!r} is no amount of memory, such as 512m"
