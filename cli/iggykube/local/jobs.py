"""The file of one job on this machine: folders in place of volumes and Secrets. Pure."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iggy_operator.decide.connectors import job_fields
from iggy_operator.launchers.secrets import CHECKPOINT_STORE, block_name, mounted, with_folders
from iggy_operator.resources import Connector
from iggykube.local.certificate import LocalTls
from iggykube.local.folders import Folders, Ports

PATH_TYPES: Final = ("Delta", "Files")
"""Those that write into a folder or read one, or an object store."""
CORES_MIN: Final = 2
CORES_MAX: Final = 64
USERNAME_VARIABLE: Final = "IGGY_USERNAME"
PASSWORD_VARIABLE: Final = "IGGY_PASSWORD"


def job_file(
    connector: Connector,
    stream: str,
    topic: str,
    folders: Folders,
    ports: Ports,
    tls: LocalTls | None = None,
) -> dict[str, Any]:
    """What the job reads. `stream` and `topic` by the broker's names, `tls`: how it is met."""
    return {
        "name": str(connector.key),
        "broker": {
            "address": ports.address,
            "usernameEnv": USERNAME_VARIABLE,
            "passwordEnv": PASSWORD_VARIABLE,
            **({} if tls is None else {"tls": tls.job_fields}),
        },
        "stream": stream,
        "topic": topic,
        connector.word: _fields(connector, folders),
        **_checkpoint(connector, folders),
        "once": connector.spec["trigger"]["mode"] == "AvailableNow",
    }


def _fields(connector: Connector, folders: Folders) -> dict[str, Any]:
    fields = job_fields(connector)
    fields["spark"] = _spark_fields(connector.spec["spark"])
    name = block_name(connector)
    if name in fields:
        fields[name] = with_folders(fields[name], name, _secret_folders(connector, folders))
    if connector.type in PATH_TYPES:
        fields[name]["path"] = path_of(connector, folders)
    return fields


def _secret_folders(connector: Connector, folders: Folders) -> dict[str, str]:
    """Where the job finds each Secret, by the field that names it."""
    namespace = connector.key.namespace
    return {item.field: str(folders.secret(namespace, item.name)) for item in mounted(connector)}


def _checkpoint(connector: Connector, folders: Folders) -> dict[str, Any]:
    """Where the job keeps its place, and how that store is reached."""
    block = connector.spec.get("checkpoint", {})
    if "location" not in block:
        return {"checkpoint": str(_checkpoint_folder(connector, folders))}
    if "s3" not in block:
        return {"checkpoint": block["location"]}
    store = with_folders(block["s3"], CHECKPOINT_STORE, _secret_folders(connector, folders))
    return {"checkpoint": block["location"], "checkpointStore": store}


def _checkpoint_folder(connector: Connector, folders: Folders) -> Path:
    """In place of the checkpoint's claim; an existing claim is shared, with a folder for each."""
    volume = connector.spec.get("checkpoint", {}).get("volume", {})
    base = folders.claims / connector.key.namespace
    if claim := volume.get("existingClaim"):
        return base / str(claim) / connector.key.name
    return base / f"{connector.key.name}-checkpoint"


def _spark_fields(spark: Mapping[str, Any]) -> dict[str, Any]:
    """Here the driver does all work: it gets the cores that executors would have."""
    driver, executor = spark["driver"], spark["executor"]
    wanted = max(CORES_MIN, driver["cores"], executor["cores"] * executor["instances"])
    cores = min(wanted, os.cpu_count() or CORES_MIN, CORES_MAX)
    return {
        "driver": {"cores": cores, "memory": driver["memory"]},
        "conf": spark.get("conf", {}),
        **({"packages": spark["packages"]} if "packages" in spark else {}),
    }


def path_of(connector: Connector, folders: Folders) -> str:
    """The folder or address of one of PATH_TYPES: a relative path lies below the data directory."""
    path = str(connector.spec[block_name(connector)]["path"])
    return path if is_address(path) else str(folders.files / path)


def is_address(path: str) -> bool:
    """Whether it is in an object store."""
    return "://" in path
