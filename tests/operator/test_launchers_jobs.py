"""What the file, the names and the application of a sink are made of, and what changes them."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desired_cases import NEXT_RELEASE, UID
from golden_files import check_frozen
from iggy_operator.desired import staging
from iggy_operator.desired.metadata import USER_HASH
from iggy_operator.desired.staging import Change
from iggy_operator.launchers import job, native
from iggy_operator.launchers.children import ConnectorChildren, connector_children, problems
from iggy_operator.launchers.choice import Launcher
from iggy_operator.launchers.job import application_name, claim_name, job_file, mebibytes
from iggy_operator.launchers.spark_conf import memory_mib
from iggy_spark import job_config, s3
from iggy_spark.errors import (
    EXIT_BAD_RECORDS,
    EXIT_CONFIGURATION,
    EXIT_DATA_LOSS,
    EXIT_STOPPED,
)
from launcher_cases import ACCESS, LAKE_TEMPLATE, job_of, sink_of

LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
SINK_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True)
UIDS = st.uuids().map(str) | st.text(min_size=1, max_size=40)
# Kubernetes: a Service's name. Then what Kubernetes, both operators and we append.
SERVICE_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
APPENDED = (
    "-driver",
    "-999999-driver",
    "-ui-svc",
    "-ui-ingress",
    "-prom-conf",
    "-0123456789",
    "-0",
    "-job",
)


@given(SINK_NAMES, UIDS)
def test_application_names_leave_room_for_what_others_append(sink: str, uid: str) -> None:
    name = application_name(sink, uid)

    assert len(name) <= 42
    assert re.fullmatch(SERVICE_NAME, name)
    assert re.fullmatch(r".*-[0-9a-f]{8}", name)
    assert all(len(name + end) <= 63 for end in APPENDED)


@given(SINK_NAMES)
def test_claims_depend_on_the_sinks_name_alone(sink: str) -> None:
    name = claim_name(sink)

    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name)
    assert name == f"{sink}-checkpoint" or len(sink) > 52


def test_long_names_stay_apart() -> None:
    long = "t" * 60

    assert len({claim_name(f"{long}{end}") for end in ("a.b", "a.c", "")}) == 3
    assert application_name(long, UID) != application_name(long, UID.replace("0d", "1d"))


def test_names_and_hashes_never_change() -> None:
    sinks = [
        sink_of(),
        sink_of("7.lake"),
        sink_of(f"{'t' * 58}.lake"),
        sink_of(trigger={"mode": "AvailableNow"}, checkpoint={"volume": {"size": "2Gi"}}),
    ]

    check_frozen(
        "frozen-sinks-0.1",
        [
            {
                "sink": desired.key.name,
                "application": job_of(desired).name,
                "file": job_of(desired).file_name,
                "claim": job_of(desired).claim,
                "asked": {launcher: user_hash(desired, launcher) for launcher in LAUNCHERS},
            }
            for desired in sinks
        ],
    )


def user_hash(desired: Any, launcher: Launcher) -> str:
    application = connector_children(job_of(desired), launcher).application
    return str(application["metadata"]["annotations"][USER_HASH])


def loaded(path: Path, **spec: Any) -> job_config.JobConfig:
    path.write_text(json.dumps(job_file(job_of(sink_of(**spec)))))
    return job_config.load(path)


def test_the_sink_job_takes_its_file(tmp_path: Path) -> None:
    config = loaded(
        tmp_path / "job.json",
        payload={"format": "Json", "schema": "id BIGINT"},
        trigger={"interval": "30s"},
        lag={"warnMessages": 7},
        metrics={"perPartition": True},
        spark={
            "podTemplate": LAKE_TEMPLATE,
            "driver": {"cores": 3, "memory": "2g"},
            "conf": {"spark.x": "1"},
        },
    )

    assert config.name == "shop/orders.lake"
    assert (config.stream, config.topic) == (ACCESS.stream, ACCESS.topic)
    assert config.broker.address == ACCESS.address
    assert config.checkpoint == "/checkpoint/orders.lake"
    assert (config.sink.spark.driver.cores, config.sink.spark.driver.memory) == (3, "2048m")
    assert config.sink.spark.conf == {"spark.x": "1"}
    assert config.sink.metrics.per_partition
    assert config.interval_ms == 30_000
    assert not config.available_now


def test_a_bounded_job_ends_by_itself(tmp_path: Path) -> None:
    config = loaded(tmp_path / "job.json", trigger={"mode": "AvailableNow"})

    assert config.once


def test_exit_codes_are_those_of_the_job() -> None:
    desired = sink_of(trigger={"mode": "AvailableNow"})
    rules = native.application(job_of(desired))["spec"]["podFailurePolicy"]["rules"]

    assert {rule["action"]: rule["onExitCodes"]["values"] for rule in rules} == {
        "FailJob": [EXIT_CONFIGURATION, EXIT_DATA_LOSS, EXIT_BAD_RECORDS],
        "Ignore": [EXIT_STOPPED],
    }


def test_files_in_an_object_store_need_no_volume_but_their_login(tmp_path: Path) -> None:
    store = {"endpoint": "http://store:8333", "pathStyle": True, "credentialsSecretName": "keys"}
    files = {"path": "s3a://lake/orders", "s3": store}

    config = loaded(tmp_path / "job.json", files=files, spark={})
    children = connector_children(job_of(sink_of(files=files, spark={})), "Kubeflow")

    assert config.sink.files is not None
    assert config.sink.files.s3.connection() == s3.Connection(
        endpoint="http://store:8333", path_style=True, credentials_path="/etc/iggy-files"
    )
    assert problems(job_of(sink_of(files=files, spark={})), "Kubeflow") == ()
    for role in ("driver", "executor"):
        spec = children.application["spec"][role]["template"]["spec"]
        (volume,) = (item for item in spec["volumes"] if item["name"] == "iggy-files-login")
        assert volume["secret"]["secretName"] == "keys"
        assert "/etc/iggy-files" in [m["mountPath"] for m in spec["containers"][0]["volumeMounts"]]


STATE: dict[str, Any] = {
    "location": "s3a://state/orders",
    "s3": {"endpoint": "http://store:8333", "credentialsSecretName": "state-keys"},
}


def test_a_checkpoint_in_an_object_store_needs_no_claim_but_its_login(tmp_path: Path) -> None:
    config = loaded(tmp_path / "job.json", checkpoint=STATE)
    children = connector_children(job_of(sink_of(checkpoint=STATE)), "Kubeflow")

    assert config.checkpoint == "s3a://state/orders"
    assert config.checkpoint_store.connection() == s3.Connection(
        endpoint="http://store:8333", path_style=True, credentials_path="/etc/iggy-checkpoint"
    )
    assert problems(job_of(sink_of(checkpoint=STATE)), "Kubeflow") == ()
    assert children.claim is None
    for role in ("driver", "executor"):  # a task looks at the mark of its driver
        spec = children.application["spec"][role]["template"]["spec"]
        volumes = {item["name"]: item for item in spec["volumes"]}
        assert volumes["iggy-checkpoint-login"]["secret"]["secretName"] == "state-keys"
        assert "iggy-checkpoint" not in volumes
    by_role = loaded(tmp_path / "job.json", checkpoint={"location": "s3a://state/orders"})
    assert by_role.checkpoint_store.connection() == s3.Connection()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_another_way_to_the_checkpoint_replaces_the_job(launcher: Launcher) -> None:
    before = {"checkpoint": STATE}
    renamed = {"checkpoint": {**STATE, "s3": {**STATE["s3"], "credentialsSecretName": "others"}}}
    by_host = {"checkpoint": {**STATE, "s3": {**STATE["s3"], "pathStyle": False}}}
    amazons = {"checkpoint": {**STATE, "s3": {"region": "eu-central-1"}}}
    written = {"checkpoint": {**STATE, "s3": {"region": "eu-central-1", "pathStyle": False}}}

    assert changed(launcher, before, renamed) is Change.USER
    assert changed(launcher, before, by_host) is Change.USER
    assert changed(launcher, amazons, written) is Change.RELEASE, "it is not replaced for that"


def change(running: dict[str, Any], wanted: ConnectorChildren) -> Change:
    """What the application in the cluster lacks."""
    asked = wanted.application["metadata"]["annotations"]
    return staging.change(running["metadata"]["annotations"], asked)


def changed(launcher: Launcher, before: dict[str, Any], after: dict[str, Any]) -> Change:
    running = connector_children(job_of(sink_of(**before)), launcher).application
    return change(running, connector_children(job_of(sink_of(**after)), launcher))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "after",
    [
        {"lag": {"warnMessages": 5, "warnAge": "10m"}},
        {"restart": {"policy": "OnFailure", "maxRetries": 3}},
        {"suspend": True},
        {"userRef": {"name": "somebody"}},  # what counts is the Secret that comes of it
        {"checkpoint": {"volume": {"size": "2Gi"}, "deletionPolicy": "Delete"}},
        {"startingOffsets": "Earliest"},  # the default, written out
        {"spark": {"podTemplate": LAKE_TEMPLATE, "driver": {"cores": 1, "memory": "1g"}}},
        {"spark": {"podTemplate": LAKE_TEMPLATE, "launcher": "Native"}},
    ],
)
def test_what_does_not_concern_the_job_restarts_nothing(
    launcher: Launcher, after: dict[str, Any]
) -> None:
    assert changed(launcher, {}, after) in (Change.NONE, Change.RELEASE)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "after",
    [
        {"payload": {"format": "Text"}},
        {"trigger": {"interval": "1m"}},
        {"trigger": {"mode": "AvailableNow"}},
        {"maxOffsetsPerTrigger": 5},
        {"minPartitions": 4},
        {"checkpoint": {"volume": {"existingClaim": "other"}}},
        {"spark": {"podTemplate": LAKE_TEMPLATE, "driver": {"memory": "2g"}}},
        {"spark": {"podTemplate": LAKE_TEMPLATE, "conf": {"spark.x": "1"}}},
        {"spark": {"podTemplate": LAKE_TEMPLATE, "image": "mine:1"}},
    ],
)
def test_what_concerns_the_job_replaces_it(launcher: Launcher, after: dict[str, Any]) -> None:
    assert changed(launcher, {}, after) is Change.USER


def test_another_launcher_address_or_login_replaces_the_job() -> None:
    running = connector_children(job_of(), "Native").application
    moved = job_of(access=job.Access("other:8090", "shop", "Orders.V2", "orders-lake-iggy"))
    renamed = job_of(access=job.Access(ACCESS.address, "shop", "Orders.V2", "another-secret"))

    for other in (
        connector_children(job_of(), "Kubeflow"),
        connector_children(moved, "Native"),
        connector_children(renamed, "Native"),
    ):
        assert change(running, other) is Change.USER


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_new_release_waits_for_the_next_restart(launcher: Launcher) -> None:
    running = connector_children(job_of(), launcher).application
    upgraded = connector_children(job_of(release=NEXT_RELEASE), launcher)
    asked_for = connector_children(
        job_of(release=NEXT_RELEASE, restart_at="2026-05-01T12:00:00Z"), launcher
    )

    assert change(running, upgraded) is Change.RELEASE
    assert change(running, asked_for) is Change.RESTART


def test_a_claim_outlives_the_sink_unless_asked_otherwise() -> None:
    kept = connector_children(job_of(), "Native").claim
    dropped = connector_children(
        job_of(sink_of(checkpoint={"volume": {}, "deletionPolicy": "Delete"})), "Native"
    ).claim
    theirs = sink_of(checkpoint={"volume": {"existingClaim": "x"}})
    named = connector_children(job_of(theirs), "Native")

    assert kept is not None
    assert "ownerReferences" not in kept["metadata"]
    assert dropped is not None
    assert dropped["metadata"]["ownerReferences"][0]["uid"] == UID
    assert named.claim is None


@pytest.mark.parametrize(
    ("text", "mib"), [("1g", 1024), ("512m", 512), ("1024", 1024), ("1024k", 1), ("1T", 1 << 20)]
)
def test_memory_is_read_as_spark_does(text: str, mib: int) -> None:
    assert mebibytes(text) == mib


def test_python_has_memory_beside_the_heap() -> None:
    def memory(**driver: str) -> tuple[int, int]:
        spark = {"podTemplate": LAKE_TEMPLATE, "driver": driver}
        return memory_mib(job_of(sink_of(spark=spark)), "driver")

    assert memory(memory="1g") == (1024, 512)
    assert memory(memory="4g") == (4096, 1639)
    assert memory(memory="1g", memoryOverhead="100m") == (1024, 100)


@pytest.mark.parametrize(("conf", "cpu"), [({}, "1"), ({native.CORES_RESERVED: "100m"}, "100m")])
def test_a_driver_reserves_its_cores_or_what_sparks_property_says(
    conf: dict[str, str], cpu: str
) -> None:
    spark = {"launcher": "Native", "conf": conf, "podTemplate": LAKE_TEMPLATE}
    application = native.application(job_of(sink_of(spark=spark)))

    (container,) = application["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == cpu
