"""The archive of a broker: place, settings and volume; and what an empty volume is filled from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.desired.broker_names import ARCHIVE_VOLUME, broker_names
from iggy_operator.desired.metadata import Manifest
from iggy_operator.names import CA_KEY
from iggy_operator.resources import Broker

ARCHIVE_PATH: Final = "/var/lib/iggy-archive"
ARCHIVE_FOLDER: Final = f"{ARCHIVE_PATH}/archive"
"""A folder of its own: the root of a volume may hold `lost+found`, which is not ours."""
RESTORE_PATH: Final = "/var/lib/iggy-restore"
RESTORE_FOLDER: Final = f"{RESTORE_PATH}/archive"
RESTORE_VOLUME: Final = "restore"
RESTORE: Final = "restore"
"""Name of the container that fills an empty volume."""
SUMMARY: Final = "/dev/termination-log"
"""Where Kubernetes looks for a container's last word, of 4 KiB at most."""
ENABLED: Final = "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED"

CA_BUNDLE: Final = "AWS_CA_BUNDLE"
"""The variable by which S3 libraries know whose certificates to trust: a PEM file."""
_CA_VOLUME: Final = "archive-ca"
_RESTORE_CA_VOLUME: Final = "restore-ca"
_CA_PATH: Final = "/etc/iggy-archive-ca"
_RESTORE_CA_PATH: Final = "/etc/iggy-restore-ca"
_ARCHIVER: Final = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
_S3: Final = f"{_ARCHIVER}S3_"
# Of a Secret, as the blocks `s3` of sinks have them.
_LOGIN: Final = {
    f"{_S3}ACCESS_KEY_ID": "accessKeyId",
    f"{_S3}SECRET_ACCESS_KEY": "secretAccessKey",
}
SIZE: Final = "20Gi"  # as the schema says, where the whole block is left out
LOGIN_KEYS: Final = tuple(_LOGIN.values())


@dataclass(frozen=True, slots=True)
class Place:
    """Where an archive is: a prefix of a bucket, or a claim."""

    store: tuple[str, str, str]
    """Kind, then endpoint and bucket, or namespace and claim."""
    prefix: str = ""
    """Empty, or with a slash at its end."""

    def overlaps(self, other: "Place") -> bool:
        """Whether one of them is in the other."""
        if self.store != other.store:
            return False
        return self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix)

    def __str__(self) -> str:
        """For people: no secret."""
        kind, _, name = self.store
        return f"s3://{name}/{self.prefix}" if kind == "S3" else f"claim {name}"


def archive_place(broker: Broker) -> Place | None:
    """Where the broker archives to; None if it does not."""
    archiver = broker.spec["archiver"]
    if broker.mode != "Managed" or archiver["kind"] == "None":
        return None
    if archiver["kind"] == "S3":
        return _bucket(archiver["s3"], broker)
    own = broker_names(broker.key.name).archive_claim
    return _claim(broker, archiver.get("disk", {}).get("existingClaim", own))


def restore_place(broker: Broker) -> Place | None:
    """What an empty volume is filled from; None if it stays empty."""
    if (source := broker.spec.get("restoreFrom")) is None:
        return None
    if "s3" in source:
        return _bucket(source["s3"], broker)
    if "disk" in source:
        return _claim(broker, source["disk"]["existingClaim"])
    return archive_place(broker)


def _bucket(block: Mapping[str, Any], broker: Broker) -> Place:
    prefix = block.get("prefix", f"{broker.key.namespace}/{broker.key.name}").strip("/")
    store = ("S3", block.get("endpoint", "").rstrip("/"), block["bucket"])
    return Place(store, f"{prefix}/" if prefix else "")


def _claim(broker: Broker, name: str) -> Place:
    return Place(("Disk", broker.key.namespace, name))


def archive_problems(broker: Broker) -> Iterator[str]:
    """What of archiver and restore cannot be had: a sentence each, with field and way out."""
    place, source = archive_place(broker), restore_place(broker)
    own = broker_names(broker.key.name)
    taken = ("Disk", broker.key.namespace, own.claim)
    if place is not None and place.store == taken:
        yield f"archiver.disk.existingClaim: {own.claim} is the volume of the data: use another"
    if source is not None and source.store == taken:
        yield f"restoreFrom.disk.existingClaim: {own.claim} is the volume to be filled: use another"
    wishes_less = broker.spec.get("restoreFrom", {}).get("full") is False
    if source is not None and source != place and wishes_less:
        yield (
            "restoreFrom.full: only the archiver's own archive is read later on, and this is "
            f"{source}: set it to true, or leave it out"
        )


def is_shared(place: Place, other: Broker) -> bool:
    """Whether another broker archives to where one wants to."""
    theirs = archive_place(other)
    return theirs is not None and place.overlaps(theirs)


def data_conflict(place: Place, other: Broker) -> bool:
    """Whether an archive would be on the volume of another broker's data."""
    return place.store == _claim(other, broker_names(other.key.name).claim).store


def archiver_settings(broker: Broker, *, folder: str = ARCHIVE_FOLDER) -> dict[str, str]:
    """By environment variable, without the login. `folder`: of an archive on a disk."""
    archiver = broker.spec["archiver"]
    place = archive_place(broker)
    if place is None:
        return {}
    settings = {
        ENABLED: "true",
        f"{_ARCHIVER}KIND": archiver["kind"].lower(),
        f"{_ARCHIVER}ARCHIVE_EXPIRED": _flag(archiver["archiveExpired"]),
        f"{_ARCHIVER}CONTINUOUS": _flag(archiver["continuous"]),
        f"{_ARCHIVER}INTERVAL": archiver["interval"],
    }
    if archiver["kind"] == "S3":
        return {**settings, **_bucket_settings(archiver["s3"], place, _CA_PATH)}
    return {**settings, f"{_ARCHIVER}DISK_PATH": folder}


def _bucket_settings(block: Mapping[str, Any], place: Place, ca_path: str) -> dict[str, str]:
    addressing = ""  # as the broker does by itself: by path with an endpoint
    if "pathStyle" in block:
        addressing = "path" if block["pathStyle"] else "virtual"
    settings = {
        f"{_S3}BUCKET": block["bucket"],
        f"{_S3}KEY_PREFIX": place.prefix,
        f"{_S3}REGION": block["region"],
        f"{_S3}ENDPOINT": block.get("endpoint", ""),
        f"{_S3}ADDRESSING": addressing,
        CA_BUNDLE: f"{ca_path}/{CA_KEY}" if "caSecretName" in block else "",
    }
    return {name: value for name, value in settings.items() if value}


def _flag(value: bool) -> str:
    return "true" if value else "false"


def login(block: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Secret and key of each variable with the login of a bucket; none: by identity."""
    secret = block.get("credentialsSecretName")
    return {name: (secret, key) for name, key in _LOGIN.items()} if secret else {}


def archiver_login(broker: Broker) -> dict[str, tuple[str, str]]:
    """The same of the archiver's bucket."""
    return login(broker.spec["archiver"].get("s3", {}))


def restore_login(broker: Broker) -> dict[str, tuple[str, str]]:
    """The same of a bucket that `restoreFrom` names itself."""
    return login(broker.spec.get("restoreFrom", {}).get("s3", {}))


def archiver_authority(broker: Broker) -> str:
    """The Secret with who signs the certificate of the archiver's store; empty: none is named."""
    return str(broker.spec["archiver"].get("s3", {}).get("caSecretName", ""))


def restore_authority(broker: Broker) -> str:
    """The same of a bucket that `restoreFrom` names itself."""
    return str(broker.spec.get("restoreFrom", {}).get("s3", {}).get("caSecretName", ""))


def restore_settings(broker: Broker) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Values and Secrets by variable, for whoever restores: how the source's bucket is reached."""
    source = broker.spec["restoreFrom"]
    if "s3" not in source:
        return archiver_settings(broker), archiver_login(broker)
    bucket = _bucket_settings(source["s3"], _bucket(source["s3"], broker), _RESTORE_CA_PATH)
    if reads_own(broker):
        return {**archiver_settings(broker), **bucket}, restore_login(broker)
    return {ENABLED: "false", f"{_ARCHIVER}KIND": "s3", **bucket}, restore_login(broker)


def reads_own(broker: Broker) -> bool:
    """Whether an empty volume is filled from where the broker archives to."""
    place = restore_place(broker)
    return place is not None and place == archive_place(broker)


def restore_command(broker: Broker, *, folder: str = "", summary: str = SUMMARY) -> list[str]:
    """The program and its arguments: nothing secret is in them.

    `folder`: of an archive on a disk, where that is no pod.
    """
    place = restore_place(broker)
    assert place is not None, "the schema asks for a place"
    is_own = reads_own(broker)
    folder = folder or (ARCHIVE_FOLDER if is_own else RESTORE_FOLDER)
    where = str(place) if place.store[0] == "S3" else folder
    command = ["iggy-broker", "restore", "--from", where, "--if-empty", "--summary", summary]
    if is_own:  # a new broker has nothing in it
        command.append("--allow-new")
    # Only the archiver's own archive is read later on.
    is_full = broker.spec["restoreFrom"].get("full", not is_own)
    return [*command, "--full"] if is_full else command


def archive_volumes(broker: Broker) -> Iterator[Manifest]:
    """Of the pod; a claim of our own comes from the StatefulSet."""
    archiver = broker.spec["archiver"]
    if archiver["kind"] == "Disk" and (claim := archiver.get("disk", {}).get("existingClaim")):
        yield {"name": ARCHIVE_VOLUME, "persistentVolumeClaim": {"claimName": claim}}
    if _has_restore_volume(broker):
        claim = broker.spec["restoreFrom"]["disk"]["existingClaim"]
        named = {"claimName": claim, "readOnly": True}
        yield {"name": RESTORE_VOLUME, "persistentVolumeClaim": named}
    if secret := archiver_authority(broker):
        yield _authority(_CA_VOLUME, secret)
    if secret := restore_authority(broker):
        yield _authority(_RESTORE_CA_VOLUME, secret)


def _authority(volume: str, secret: str) -> Manifest:
    items = [{"key": CA_KEY, "path": CA_KEY}]
    return {"name": volume, "secret": {"secretName": secret, "items": items}}


def archive_mounts(broker: Broker) -> list[Manifest]:
    """Of the broker's container."""
    if broker.spec["archiver"]["kind"] == "Disk":
        return [{"name": ARCHIVE_VOLUME, "mountPath": ARCHIVE_PATH}]
    if archiver_authority(broker):
        return [{"name": _CA_VOLUME, "mountPath": _CA_PATH, "readOnly": True}]
    return []


def restore_mounts(broker: Broker) -> list[Manifest]:
    """Of the container that restores, beside those of the broker's."""
    if _has_restore_volume(broker):
        return [{"name": RESTORE_VOLUME, "mountPath": RESTORE_PATH, "readOnly": True}]
    if restore_authority(broker):
        return [{"name": _RESTORE_CA_VOLUME, "mountPath": _RESTORE_CA_PATH, "readOnly": True}]
    return []


def _has_restore_volume(broker: Broker) -> bool:
    return "disk" in broker.spec.get("restoreFrom", {}) and not reads_own(broker)


def claim_wishes(broker: Broker) -> Mapping[str, Any] | None:
    """Of a claim of our own for the archive, as `claims.volume_claim` wants them."""
    archiver = broker.spec["archiver"]
    disk = archiver.get("disk", {"size": SIZE})
    if archiver["kind"] != "Disk" or "existingClaim" in disk:
        return None
    return {"accessMode": broker.spec["storage"]["accessMode"], **disk}


def asked(archiver: Mapping[str, Any]) -> dict[str, Any]:
    """What of `spec.archiver` a running process can only take over by a restart."""
    if "disk" not in archiver:
        return dict(archiver)
    disk = {name: item for name, item in archiver["disk"].items() if name == "existingClaim"}
    return {**archiver, "disk": disk}
