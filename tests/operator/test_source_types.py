"""Every type of source in a cluster: what its job is given, and where its Secrets lie."""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from golden_files import check_golden
from iggy_operator.desired.metadata import USER_HASH, Manifest
from iggy_operator.launchers.children import connector_children, problems
from iggy_operator.launchers.choice import Launcher
from iggy_operator.launchers.job import job_file
from iggy_operator.launchers.secrets import mounted
from iggy_operator.resources import Source
from iggy_operator.schema import schemas
from iggy_spark import job_file as file_of_job
from iggy_spark import source_config
from iggy_spark.source_config import SourceConfig
from launcher_cases import LAKE_TEMPLATE, job_of, source_of
from source_blocks import POLLING, SYSTEMS

LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
FIELDS = schemas()["IggySource"].root["properties"]["spec"]["properties"]
FOLDERS = {
    "Postgres": {"/etc/iggy-target": "pg", "/etc/iggy-target-ca": "pg-ca"},
    "Http": {"/etc/iggy-target": "login", "/etc/iggy-target-ca": "ca"},
    "Files": {"/etc/iggy-files": "keys"},
}


def system(kind: str, **block: Any) -> Source:
    whole = {**SYSTEMS[kind], **block}
    return source_of(**{"type": kind, "random": None, kind.lower(): whole})


def loaded(path: Path, source: Source) -> SourceConfig:
    path.write_text(json.dumps(job_file(job_of(source))))
    config = file_of_job.load(path)
    assert isinstance(config, SourceConfig)
    return config


@pytest.mark.parametrize("kind", SYSTEMS)
def test_the_job_takes_what_the_resource_says(kind: str, tmp_path: Path) -> None:
    source = system(kind)

    config = loaded(tmp_path / "job.json", source)

    assert problems(job_of(source), "Native") == ()
    assert config.name == "shop/orders.made"
    assert config.alive_file and config.metrics_port
    back = msgspec.to_builtins(getattr(config.source, kind.lower()))
    given = {
        name: item
        for name, item in SYSTEMS[kind].items()
        if not name.endswith("SecretName") and name != "s3"
    }
    assert {**given, **back} == back


def test_a_polled_table_is_taken_too(tmp_path: Path) -> None:
    source = source_of(type="Postgres", random=None, postgres=POLLING)

    block = loaded(tmp_path / "job.json", source).source.postgres

    assert block is not None
    assert (block.mode, block.cursor_column, block.key_columns) == ("Polling", "changed_at", ["id"])


@pytest.mark.parametrize("kind", SYSTEMS)
def test_both_sides_have_the_same_fields_and_defaults(kind: str) -> None:
    """One with the name of a Secret, the other with a folder beside it."""
    node = FIELDS[kind.lower()]
    part = {field.name: field.type for field in msgspec.structs.fields(source_config.SourceSpec)}
    (struct,) = [item for item in get_args(part[kind.lower()]) if item is not type(None)]
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    folders = {
        name for name in fields if name.endswith("Path") and f"{name[:-4]}SecretName" in fields
    }

    assert set(node["properties"]) == set(fields) - folders
    assert set(node.get("required", ())) == {
        name for name, field in fields.items() if field.required
    }
    for name, child in node["properties"].items():
        if "default" in child:
            assert fields[name].default == child["default"], name


def test_the_job_knows_every_field() -> None:
    """Fields of whoever launches it, too: one file describes a source wherever it runs."""
    known = {field.encode_name: field for field in msgspec.structs.fields(source_config.SourceSpec)}

    assert {*FIELDS, "name"} == set(known)
    limit = FIELDS["maxMessagesPerTrigger"]
    assert limit["default"] == source_config.MESSAGES_DEFAULT
    assert limit["maximum"] == source_config.MESSAGES_MAX
    for name in ("errors", "trigger"):
        struct = known[name].type
        assert set(FIELDS[name]["properties"]) == {
            field.encode_name for field in msgspec.structs.fields(struct)
        }


def pods(source: Source, launcher: Launcher) -> list[Manifest]:
    spec = connector_children(job_of(source), launcher).application["spec"]
    if launcher == "Native":
        return [spec["template"]["spec"]]
    if launcher == "Kubeflow":
        return [spec[role]["template"]["spec"] for role in ("driver", "executor")]
    return [spec[role]["podTemplateSpec"]["spec"] for role in ("driverSpec", "executorSpec")]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("kind", FOLDERS)
def test_every_pod_mounts_its_secrets_read_only(kind: str, launcher: Launcher) -> None:
    for pod in pods(system(kind), launcher):
        volumes = {item["name"]: item for item in pod["volumes"]}
        mounts = {item["mountPath"]: item for item in pod["containers"][0]["volumeMounts"]}

        for folder, name in FOLDERS[kind].items():
            assert mounts[folder]["readOnly"] is True
            assert volumes[mounts[folder]["name"]]["secret"]["secretName"] == name


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_login_and_an_authority_become_folders(kind: str, tmp_path: Path) -> None:
    text = json.dumps(job_file(job_of(system(kind)))["source"])

    assert "SecretName" not in text
    for folder in FOLDERS[kind]:
        assert f'"{folder}"' in text


def test_what_a_secret_lacks_is_named() -> None:
    login, authority = mounted(system("Postgres"))

    assert login.field == "postgres.credentialsSecretName"
    assert login.lacks({"username"}) == "the key password"
    assert authority.lacks(set()) == "the key ca.crt"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_children_are_those_of_the_golden_file(launcher: Launcher) -> None:
    children = connector_children(job_of(system("Postgres")), launcher)
    found = (children.claim, children.account, children.file, children.application)

    check_golden(f"source-postgres-{launcher.lower()}", [one for one in found if one is not None])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_default_that_is_written_out_restarts_nothing(launcher: Launcher) -> None:
    least = source_of()
    whole = source_of(random={"rate": 10, "payloadBytes": 100}, maxMessagesPerTrigger=100_000)

    hashes = {
        connector_children(job_of(source), launcher).application["metadata"]["annotations"][
            USER_HASH
        ]
        for source in (least, whole)
    }

    assert len(hashes) == 1


@pytest.mark.parametrize("path", ["/lake/orders", "/in", "/lake/../etc"])
def test_files_are_read_where_the_pod_has_them(path: str) -> None:
    source = source_of(
        type="Files", random=None, files={"path": path}, spark={"podTemplate": LAKE_TEMPLATE}
    )

    found = problems(job_of(source), "Native")

    assert (found == ()) == (path == "/lake/orders")
    assert all("lies on no volume, so that a pod has no files there" in text for text in found)
