"""What a laptop can and cannot do with resources, before anything runs."""

import json
import re
from pathlib import Path

import pytest

from iggy_operator.documents import DocumentErrors
from iggy_operator.resources import load
from iggykube.local.folders import Folders, Ports
from iggykube.local.plan import LocalPlan, make_plan
from sink_blocks import TARGETS

HEAD = "apiVersion: iggykube.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n"
STREAM = HEAD % ("IggyStream", "shop", "{}")
LAKE = "{name: lake, type: Files, files: {path: %s}, checkpoint: {%s}}"
COPY = "{name: copy, type: Iggy, iggy: {stream: shop, topic: %s}, checkpoint: {volume: {}}}"
STORE = "{endpoint: 'http://s3:8333', pathStyle: true, credentialsSecretName: keys}"
STORED = (
    f"{{name: lake, type: Files, files: {{path: 's3a://lake/x', s3: {STORE}}}, "
    f"checkpoint: {{location: 's3a://state/x', s3: {STORE}}}}}"
)
KEYED = STORED.replace(f"location: 's3a://state/x', s3: {STORE}", "volume: {}")
BARE = "{name: a, type: Files, files: {path: x}, payload: {format: Avro}, checkpoint: {volume: {}}}"
TABLE = "{name: a, type: Delta, delta: {path: ../../x}, checkpoint: {volume: {}}}"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {%s}\n"
KEYS = SECRET % "accessKeyId: mine, secretAccessKey: hidden"


def plan(tmp_path: Path, *documents: str) -> LocalPlan:
    path = tmp_path / "shop.yaml"
    path.write_text("---\n".join(documents))
    return make_plan(load([path]), Folders.at(tmp_path / "data"), Ports(8090, 9099))


def topic(*sinks: str, name: str = "orders", stream: str = "shop") -> str:
    return HEAD % (
        "IggyTopic",
        name,
        f"{{streamRef: {{name: {stream}}}, sinks: [{', '.join(sinks)}]}}",
    )


def test_a_job_gets_absolute_paths_defaults_and_no_launcher_fields(tmp_path: Path) -> None:
    made = plan(tmp_path, STREAM, topic(LAKE % ("lake/orders", "volume: {}")))

    job = made.jobs[0].job
    assert job["name"] == "orders.lake"
    assert job["sink"]["files"]["path"] == f"{tmp_path}/data/files/lake/orders"
    assert job["checkpoint"] == f"{tmp_path}/data/claims/default/orders.lake-checkpoint"
    assert job["sink"]["files"]["format"] == "Parquet"
    assert not {"checkpoint", "restart", "suspend", "lag", "name"} & set(job["sink"])
    assert set(job["sink"]["spark"]) == {"driver", "conf"}
    assert job["once"] is False


def test_what_is_for_a_cluster_alone_is_told(tmp_path: Path) -> None:
    spark = (
        "spark: {packages: ['a:b:1'], pyFiles: [a.py], env: [{name: A, value: b}], conf: {x: y}}"
    )

    made = plan(tmp_path, STREAM, topic(f"{LAKE[:-1] % ('lake', 'volume: {}')}, {spark}}}"))

    assert [note for note in made.notes if "spark." in note] == [
        f"sink orders.lake: spark.{name} is for a cluster, and left out here"
        for name in ("pyFiles", "env")
    ]
    given = made.jobs[0].job["sink"]["spark"]
    assert (given["conf"], given["packages"]) == ({"x": "y"}, ["a:b:1"])


def test_object_stores_are_reached_with_the_secrets_of_the_files(tmp_path: Path) -> None:
    other = KEYS.replace("keys", "of-nobody")

    made = plan(tmp_path, STREAM, topic(STORED), KEYS, other)

    job = made.jobs[0].job
    folder = f"{tmp_path}/data/secrets/sinks/default/keys"
    store = {"endpoint": "http://s3:8333", "pathStyle": True, "credentialsPath": folder}
    files = {"path": "s3a://lake/x", "format": "Parquet", "listBatches": False, "s3": store}
    assert job["sink"]["files"] == files
    assert (job["checkpoint"], job["checkpointStore"]) == ("s3a://state/x", store)
    assert [secret.name for secret in made.secrets] == ["keys"]
    assert "hidden" not in repr(made)


@pytest.mark.parametrize("kind", TARGETS)
def test_logins_of_targets_are_folders_and_the_job_takes_the_rest(
    tmp_path: Path, kind: str
) -> None:
    block = {name: item for name, item in TARGETS[kind].items() if name != "s3"}
    block |= {"path": "lake/orders"} if kind == "Delta" else {}
    spec = {"topicRef": {"name": "orders"}, "type": kind, kind.lower(): block}
    spec["checkpoint"] = {"volume": {}}
    spec["payload"] = {"format": "Json", "schema": "id BIGINT NOT NULL, day DATE"}
    own = HEAD % ("IggySink", "x", json.dumps(spec))
    keys = ("username", "password", "clientId", "clientSecret", "token", "ca.crt")
    values = dict.fromkeys(keys, "x")
    named = [item for field, item in block.items() if field.endswith("SecretName")]
    secrets = [
        (SECRET % "").replace("keys", name).replace("{}", json.dumps(values)) for name in named
    ]

    job = plan(tmp_path, STREAM, topic(), own, *secrets).jobs[0].job

    found = job["sink"][kind.lower()]
    base = f"{tmp_path}/data"
    for field, path in (("credentials", "credentialsPath"), ("ca", "caPath")):
        name = block.get(f"{field}SecretName")
        wanted = None if name is None else f"{base}/secrets/sinks/default/{name}"
        assert found.get(path) == wanted
    if kind == "Delta":
        assert found["path"] == f"{base}/files/lake/orders"


def test_an_existing_claim_is_shared_with_a_folder_for_each_sink(tmp_path: Path) -> None:
    claim = "volume: {existingClaim: shared}"

    made = plan(tmp_path, STREAM, topic(LAKE % ("lake", claim)))

    checkpoint = Path(made.jobs[0].job["checkpoint"])
    assert checkpoint == tmp_path / "data/claims/default/shared/orders.lake"


def test_a_sink_of_its_own_joins_its_topic(tmp_path: Path) -> None:
    own = HEAD % ("IggySink", "show", "{topicRef: {name: orders}, type: Console}")

    made = plan(tmp_path, STREAM, topic(), own)

    assert [sink.name for sink in made.topics[0].jobs] == ["show"]
    assert made.jobs[0].stream_name == "shop"


def test_settings_of_a_broker_become_its_environment(tmp_path: Path) -> None:
    spec = "{shards: {count: 2}, config: {system.partition.enforce_fsync: 'true'}}"

    made = plan(tmp_path, HEAD % ("IggyBroker", "iggy", spec), STREAM)

    assert made.broker_environment == {
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
        "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC": "true",
    }


ARCHIVE = "archiver: {kind: S3, s3: {bucket: abc, credentialsSecretName: keys}}, restoreFrom: {}"


def test_a_brokers_archive_and_keys_are_those_of_its_document(tmp_path: Path) -> None:
    spec = f"{{{ARCHIVE}, encryption: {{secretName: keys, key: accessKeyId}}}}"

    made = plan(tmp_path, HEAD % ("IggyBroker", "iggy", spec), STREAM, KEYS)

    name = "IGGY_DATA_MAINTENANCE_ARCHIVER_S3_"
    assert made.broker_environment[f"{name}KEY_PREFIX"] == "default/iggy/"
    assert made.broker_environment[f"{name}SECRET_ACCESS_KEY"] == "hidden"
    assert made.broker_environment["IGGY_SYSTEM_ENCRYPTION_KEY_FILE"] == str(
        tmp_path / "data/secrets/sinks/default/keys/accessKeyId"
    )
    assert [item.name for item in made.secrets] == ["keys"]
    assert made.restore is not None
    assert "s3://abc/default/iggy/" in made.restore.arguments
    assert made.restore.environment == made.broker_environment
    assert "hidden" not in str(made)


def test_what_comes_from_elsewhere_has_a_login_of_its_own(tmp_path: Path) -> None:
    own = ARCHIVE.partition(", restoreFrom")[0].replace("abc,", "abc, pathStyle: false,")
    source = "restoreFrom: {s3: {bucket: other, endpoint: 'http://s3:1'}}"
    spec = f"{{{own}, {source}}}"

    made = plan(tmp_path, HEAD % ("IggyBroker", "iggy", spec), STREAM, KEYS)

    assert made.restore is not None
    assert "--full" in made.restore.arguments
    found = made.restore.environment
    assert found["IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED"] == "false"
    assert found["IGGY_DATA_MAINTENANCE_ARCHIVER_S3_ENDPOINT"] == "http://s3:1"
    assert "IGGY_DATA_MAINTENANCE_ARCHIVER_S3_ADDRESSING" not in found, "of the other bucket"
    assert "hidden" not in found.values()


def test_the_authority_of_a_store_is_a_file(tmp_path: Path) -> None:
    folder = f"{tmp_path}/data/secrets/sinks/default"
    one = ARCHIVE.replace("abc,", "abc, caSecretName: own-ca,")
    other = one.replace("From: {}", "From: {s3: {bucket: other, caSecretName: other-ca}}")
    plain = one.replace("From: {}", "From: {s3: {bucket: other}}")
    authorities = [
        (SECRET % "ca.crt: pem").replace("keys", name) for name in ("own-ca", "other-ca")
    ]

    for spec, source in ((one, "own-ca"), (other, "other-ca"), (plain, "")):
        heads = (HEAD % ("IggyBroker", "iggy", f"{{{spec}}}"), STREAM, KEYS)
        made = plan(tmp_path, *heads, *authorities)

        assert made.broker_environment["AWS_CA_BUNDLE"] == f"{folder}/own-ca/ca.crt"
        assert made.restore is not None
        found = made.restore.environment.get("AWS_CA_BUNDLE", "")
        assert found == (f"{folder}/{source}/ca.crt" if source else "")
        assert {"own-ca", "keys"} <= {secret.name for secret in made.secrets}


@pytest.mark.parametrize(
    ("spec", "secret", "words"),
    [
        (ARCHIVE, "", "spec.archiver.s3.credentialsSecretName: there is no Secret keys"),
        (ARCHIVE, SECRET % "accessKeyId: mine", "Secret keys lacks secretAccessKey"),
        (
            "encryption: {secretName: keys}",
            KEYS,
            "spec.encryption.secretName: Secret",
        ),
        ("restoreFrom: {s3: {bucket: abc}, full: false}", KEYS, "spec.restoreFrom.full: only the"),
    ],
)
def test_what_a_brokers_document_lacks_is_told(
    tmp_path: Path, spec: str, secret: str, words: str
) -> None:
    documents = [HEAD % ("IggyBroker", "iggy", f"{{{spec}}}"), STREAM]

    with pytest.raises(DocumentErrors, match=re.escape(words)):
        plan(tmp_path, *documents, *([secret] if secret else []))


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        (TABLE, "sinks[0].delta.path: a relative path must stay below"),
        (COPY % "orders", "sinks[0].iggy: shop/orders is the topic that is read"),
    ],
)
def test_what_no_type_of_sink_may_do_is_told(tmp_path: Path, sink: str, words: str) -> None:
    with pytest.raises(DocumentErrors) as caught:
        plan(tmp_path, STREAM, topic(sink))

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("documents", "where", "words"),
    [
        ([STREAM, topic(stream="shp")], ":9:", "did you mean shop?"),
        ([topic()], ":4:", "add a document of kind IggyStream"),
        ([STREAM, topic(LAKE % ("s3a://B/x", "volume: {}"))], ":9:", "files.path: 's3a://B/x'"),
        ([STREAM, topic(LAKE % ("gs://b/x", "volume: {}"))], ":9:", "files.path: 'gs://b/x'"),
        ([STREAM, topic(LAKE % ("../../x", "volume: {}"))], ":9:", "must stay below"),
        ([STREAM, topic(LAKE % (".", "volume: {}"))], ":9:", "must stay below"),
        ([STREAM, topic(LAKE % ("x", "location: 'gs://b/x'"))], ":9:", "in an object store"),
        ([STREAM, topic(BARE)], ":9:", "sinks[0].payload.schema: is missing"),
        ([STREAM, topic(KEYED)], ":9:", "sinks[0].files.s3.credentialsSecretName: there is no "
         "Secret keys: add one of kind Secret to the files, in namespace default"),
        ([STREAM, topic(KEYED), SECRET % "accessKeyId: a"], ":9:",
         "Secret keys lacks the key secretAccessKey"),
        ([STREAM, topic(KEYED), (SECRET % "a: a").replace("keys", "keys, namespace: shop")],
         ":9:", "there is no Secret keys"),
        ([HEAD % ("IggyBroker", "main", "{}"), STREAM], ":9:", "here are main and iggy"),
        ([STREAM, topic(), topic(name="b").replace("spec: {", "spec: {topicName: orders, ")],
         ":13:", "both stand for shop/orders"),
        ([HEAD % ("IggyBroker", "iggy", "{mode: External, external: {tcp: 'a:1', http: "
                  "'http://a', credentialsSecretName: x}}")], ":4:", "runs its own broker"),
        ([STREAM, topic(), HEAD % ("IggySink", "x", "{topicRef: {name: order}, type: Console}")],
         ":14:", "did you mean orders?"),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_told_at_its_place(
    tmp_path: Path, documents: list[str], where: str, words: str
) -> None:
    with pytest.raises(DocumentErrors) as caught:
        plan(tmp_path, *documents)

    assert len(caught.value.problems) == 1
    assert where in str(caught.value)
    assert words in str(caught.value)
