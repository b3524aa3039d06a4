"""Every type of sink in a cluster: what its job is given, and where its Secrets lie."""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from iggy_operator.desired.metadata import USER_HASH, Manifest
from iggy_operator.launchers.children import connector_children, problems
from iggy_operator.launchers.choice import Launcher
from iggy_operator.launchers.job import ConnectorJob, job_file
from iggy_operator.launchers.secrets import mounted
from iggy_operator.resources import Sink
from iggy_operator.schema import schemas
from iggy_spark import job_config
from iggy_spark.transforms.plan import KINDS, TRANSFORMS_MAX
from launcher_cases import LAKE_TEMPLATE, job_of, sink_of
from sink_blocks import BUCKET, DATABASE, TARGETS

LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
FIELDS = schemas()["IggySink"].root["properties"]["spec"]["properties"]
LOGIN, AUTHORITY = "/etc/iggy-target", "/etc/iggy-target-ca"
NAMED = [kind for kind, block in TARGETS.items() if "credentialsSecretName" in block]
KEYED = {**BUCKET, "s3": {**BUCKET["s3"], "credentialsSecretName": "keys"}}


def target(kind: str, **block: Any) -> Sink:
    whole = {**TARGETS[kind], **block}
    return sink_of(type=kind, files=None, spark={}, **{kind.lower(): whole})


def written(sink: Sink) -> Manifest:
    return job_file(job_of(sink))["sink"]  # type: ignore[no-any-return]


def marks(job: ConnectorJob, launcher: Launcher) -> Manifest:
    application = connector_children(job, launcher).application
    return application["metadata"]["annotations"]  # type: ignore[no-any-return]


def pods(sink: Sink, launcher: Launcher) -> list[Manifest]:
    spec = connector_children(job_of(sink), launcher).application["spec"]
    if launcher == "Native":
        return [spec["template"]["spec"]]
    if launcher == "Kubeflow":
        return [spec[role]["template"]["spec"] for role in ("driver", "executor")]
    return [spec[role]["podTemplateSpec"]["spec"] for role in ("driverSpec", "executorSpec")]


@pytest.mark.parametrize("kind", TARGETS)
def test_the_job_takes_what_the_resource_says(kind: str, tmp_path: Path) -> None:
    sink = target(kind)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job_file(job_of(sink))))

    block = getattr(job_config.load(path).sink, kind.lower())

    assert problems(job_of(sink), "Native") == ()
    back = msgspec.to_builtins(block)
    given = {name: item for name, item in TARGETS[kind].items() if not name.endswith("SecretName")}
    assert back.items() >= given.items()


@pytest.mark.parametrize("kind", ["Files", *TARGETS])
def test_both_sides_have_the_same_fields_and_defaults(kind: str) -> None:
    """One with the name of a Secret, the other with a folder beside it."""
    node = FIELDS[kind.lower()]
    part = {field.name: field.type for field in msgspec.structs.fields(job_config.SinkSpec)}
    (struct,) = [item for item in get_args(part[kind.lower()]) if item is not type(None)]
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    folders = {name for name in fields if name.endswith("Path") and "SecretName" not in name}

    assert set(node["properties"]) == set(fields) - folders
    for name, child in node["properties"].items():
        if "default" in child:
            assert fields[name].default == child["default"], name


def test_the_job_knows_every_field_and_every_transform() -> None:
    """Fields of whoever launches it, too: one file describes a sink wherever it runs."""
    parts = {name: FIELDS[name]["properties"] for name in ("payload", "errors", "trigger")}
    known = {field.encode_name: field for field in msgspec.structs.fields(job_config.SinkSpec)}

    assert {*FIELDS, "name"} == set(known)
    for name, properties in parts.items():
        struct = known[name].type
        assert set(properties) == {field.encode_name for field in msgspec.structs.fields(struct)}
    assert set(FIELDS["transforms"]["items"]["properties"]) == set(KINDS)
    assert FIELDS["transforms"]["maxItems"] == TRANSFORMS_MAX


@pytest.mark.parametrize("kind", NAMED)
def test_a_login_and_an_authority_become_folders(kind: str) -> None:
    block = written(target(kind))[kind.lower()]
    has_authority = "caSecretName" in TARGETS[kind]

    assert block["credentialsPath"] == LOGIN
    assert block.get("caPath") == (AUTHORITY if has_authority else None)
    assert not [name for name in block if name.endswith("SecretName")]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("kind", NAMED)
def test_every_pod_mounts_them_read_only(kind: str, launcher: Launcher) -> None:
    for pod in pods(target(kind), launcher):
        secrets = {item["name"]: item["secret"] for item in pod["volumes"] if "secret" in item}
        mounts = {item["mountPath"]: item for item in pod["containers"][0]["volumeMounts"]}

        name = TARGETS[kind]["credentialsSecretName"]
        assert secrets["iggy-target-login"] == {"secretName": name, "defaultMode": 0o440}
        assert mounts[LOGIN] == {
            "name": "iggy-target-login", "mountPath": LOGIN, "readOnly": True,
        }  # fmt: skip
        if "caSecretName" in TARGETS[kind]:
            assert secrets["iggy-target-ca"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
            assert mounts[AUTHORITY]["readOnly"] is True


def test_a_table_in_a_store_has_the_same_login_as_files_there() -> None:
    delta = target("Delta", **KEYED)
    files = sink_of(files=KEYED, spark={})

    assert [item.folder for item in mounted(delta)] == [item.folder for item in mounted(files)]
    assert written(delta)["delta"]["s3"] == written(files)["files"]["s3"]
    assert written(files)["files"]["s3"]["credentialsPath"] == "/etc/iggy-files"


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("least", "whole"),
    [
        ({}, {"failOnDataLoss": True}),
        (
            {"type": "Jdbc", "files": None, "jdbc": {"url": "jdbc:postgresql://p/x", "table": "t"}},
            {"jdbc": {"createTable": True, "mode": "Append"}},
        ),
        (
            {"type": "Http", "files": None, "http": {"url": "https://x.example"}},
            {"http": {"metadata": False, "timeout": "30s", "body": "NdJson"}},
        ),
        (
            {"type": "Iggy", "files": None, "iggy": {"stream": "shop", "topic": "copy"}},
            {"iggy": {"partitioning": "Same"}},
        ),
        (
            {"type": "Iceberg", "files": None, "iceberg": {"table": "shop.orders"}},
            {"iceberg": {"createTable": True}},
        ),
        (
            {"errors": {"tolerance": "Data", "deadLetter": {"topic": "d"}}},
            {"errors": {"deadLetter": {"topic": "d", "maxPerBatch": 1000, "maxRatio": 0.05}}},
        ),
    ],
)  # fmt: skip
def test_a_default_that_is_written_out_restarts_nothing(
    launcher: Launcher, least: dict[str, Any], whole: dict[str, Any]
) -> None:
    joined = {
        name: {**least.get(name, {}), **item} if isinstance(item, dict) else item
        for name, item in whole.items()
    }

    hashes = [
        marks(job_of(sink_of(**spec)), launcher)[USER_HASH] for spec in (least, least | joined)
    ]

    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("payload", ["Raw", "Text", "Json", "Avro", "Protobuf"])
@pytest.mark.parametrize("format_name", ["Parquet", "Orc", "Json", "Csv", "Text"])
def test_no_format_is_refused_any_more(payload: str, format_name: str) -> None:
    files = {"path": "/lake/orders", "format": format_name}
    spec = {"payload": {"format": payload}, "transforms": [{"flatten": {}}], "files": files}

    assert problems(job_of(sink_of(spark={"podTemplate": LAKE_TEMPLATE}, **spec)), "Native") == ()


def test_a_secret_of_another_name_replaces_the_job_and_its_content_does_not() -> None:
    def user_hash(**jdbc: Any) -> str:
        sink = sink_of(**DATABASE | {"jdbc": DATABASE["jdbc"] | jdbc})
        application = connector_children(job_of(sink), "Native").application
        return str(application["metadata"]["annotations"][USER_HASH])

    assert user_hash() == user_hash()
    assert user_hash(credentialsSecretName="other") != user_hash()
    assert user_hash(caSecretName="other") != user_hash()


@pytest.mark.parametrize(
    ("kind", "keys", "missing"),
    [
        ("Jdbc", {"username", "password", "more"}, ""),
        ("Jdbc", {"username"}, "the key password"),
        ("Elasticsearch", {"apiKey"}, ""),
        ("Elasticsearch", {"username"}, "the keys username and password, or the key apiKey"),
        ("Http", {"clientId", "clientSecret"}, ""),
        ("Http", {"token"}, "the keys clientId and clientSecret"),
        ("Iceberg", {"s3.access-key-id"}, ""),
        ("Iceberg", set(), "any key"),
    ],
)  # fmt: skip
def test_what_a_secret_lacks_is_named(kind: str, keys: set[str], missing: str) -> None:
    login = next(item for item in mounted(target(kind)) if item.folder == LOGIN)

    assert login.field == f"{kind.lower()}.credentialsSecretName"
    assert login.lacks(keys) == missing


def test_a_service_with_a_token_needs_no_client() -> None:
    plain = {name: item for name, item in TARGETS["Http"].items() if name != "oauth2"}
    sink = sink_of(type="Http", files=None, spark={}, http=plain)

    login = next(item for item in mounted(sink) if item.folder == LOGIN)

    assert login.lacks({"token"}) == ""
    assert login.lacks({"tls.crt", "tls.key"}) == ""
    assert "the key token" in login.lacks({"tls.crt"})
