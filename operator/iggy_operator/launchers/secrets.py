"""Secrets that a sink or source names, and the folders that they become wherever its job runs.

The job reads a login anew at every connection, so a changed Secret needs no restart.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.resources import Connector

STORE_FOLDER: Final = "/etc/iggy-files"
TARGET_FOLDER: Final = "/etc/iggy-target"
CA_FOLDER: Final = "/etc/iggy-target-ca"
CHECKPOINT_STORE_FOLDER: Final = "/etc/iggy-checkpoint"
VOLUMES: Final = {
    STORE_FOLDER: "iggy-files-login",
    TARGET_FOLDER: "iggy-target-login",
    CA_FOLDER: "iggy-target-ca",
    CHECKPOINT_STORE_FOLDER: "iggy-checkpoint-login",
}
"""Folder of a pod to the name of its volume."""
CHECKPOINT_STORE: Final = "checkpoint.s3"
"""How the object store of the checkpoint is reached."""

_STORE: Final = ("accessKeyId", "secretAccessKey")
_CA: Final = ("ca.crt",)
_BASIC: Final = ("username", "password")
# What a login may consist of: all keys of one row. Without a row, whatever the Secret has.
_LOGINS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "Jdbc": (_BASIC,),
    "Elasticsearch": (_BASIC, ("apiKey",)),
    "Quickwit": (("token",),),
    "ClickHouse": (_BASIC,),
    "Mongo": (_BASIC,),
    "Http": (("token",), _BASIC, ("tls.crt", "tls.key")),
    "Postgres": (_BASIC,),
}
_OAUTH2: Final = (("clientId", "clientSecret"),)


@dataclass(frozen=True, slots=True)
class Mounted:
    """One Secret, and where the job finds it: a folder with one file a key."""

    field: str
    """Where the resource names it, such as `jdbc.credentialsSecretName`."""
    name: str
    folder: str
    rows: tuple[tuple[str, ...], ...] = ()
    """The keys of one of these rows must be there. Empty: any."""
    keys: tuple[str, ...] = ()
    """The only ones that become files. Empty: all of them, since a login has one row of several."""

    def lacks(self, keys: Set[str]) -> str:
        """What a Secret with these keys is missing, in words; empty if nothing is."""
        if not self.rows:
            return "" if keys else "any key"
        if any(keys >= set(row) for row in self.rows):
            return ""
        if len(self.rows) == 1:
            return _named([key for key in self.rows[0] if key not in keys])
        return ", or ".join(_named(row) for row in self.rows)


def _named(keys: Sequence[str]) -> str:
    return ("the key " if len(keys) == 1 else "the keys ") + " and ".join(keys)


def block_name(connector: Connector) -> str:
    """The field that holds the details of a type: `clickhouse` of ClickHouse."""
    return connector.type.lower()


def mounted(connector: Connector) -> Iterator[Mounted]:
    """Every Secret that is named."""
    name = block_name(connector)
    block: Mapping[str, Any] = connector.spec.get(name, {})
    yield from _store(f"{name}.s3", block.get("s3", {}), STORE_FOLDER)
    if secret := block.get("credentialsSecretName"):
        rows = _OAUTH2 if "oauth2" in block else _LOGINS.get(connector.type, ())
        yield Mounted(f"{name}.credentialsSecretName", secret, TARGET_FOLDER, rows)
    if secret := block.get("caSecretName"):
        yield Mounted(f"{name}.caSecretName", secret, CA_FOLDER, (_CA,), _CA)
    checkpoint = connector.spec.get("checkpoint", {}).get("s3", {})
    yield from _store(CHECKPOINT_STORE, checkpoint, CHECKPOINT_STORE_FOLDER)


def _store(field: str, block: Mapping[str, Any], folder: str) -> Iterator[Mounted]:
    if secret := block.get("credentialsSecretName"):
        yield Mounted(f"{field}.credentialsSecretName", secret, folder, (_STORE,), _STORE)


def with_folders(
    block: Mapping[str, Any], field: str, folders: Mapping[str, str]
) -> dict[str, Any]:
    """A block as the job reads it: folders in place of Secrets.

    `field` is the block's own name, and `folders` has the folder for each `Mounted.field`.
    """
    found: dict[str, Any] = {}
    for name, value in block.items():
        place = f"{field}.{name}"
        if place in folders:
            found[name.removesuffix("SecretName") + "Path"] = folders[place]
        else:
            is_block = isinstance(value, Mapping)
            found[name] = with_folders(value, place, folders) if is_block else value
    return found
