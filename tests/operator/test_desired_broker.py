import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desired_cases import RELEASE, broker_of, children_of, owner_of_broker
from foreign_schemas import misfits, pod_schema
from golden_files import check_frozen, check_golden
from iggy_broker import config as broker_settings
from iggy_broker.net.listener import tls_of
from iggy_broker.supervisor import STOP_GRACE_S
from iggy_operator.desired import broker_config, transports
from iggy_operator.desired.broker import broker_children
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.broker_pod import USER_ID
from iggy_operator.desired.metadata import USER_HASH, Manifest, dns_label

FULL: dict[str, Any] = {
    "image": "registry.example/broker:7",
    "imagePullPolicy": "Always",
    "shards": {"count": 4},
    "resources": {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    "storage": {
        "size": "50Gi",
        "storageClassName": "fast",
        "accessMode": "ReadWriteOncePod",
        "retentionPolicy": "Delete",
    },
    "listeners": {
        "serviceType": "LoadBalancer",
        "tcpPort": 18090,
        "serviceAnnotations": {"lb.example/internal": "yes"},
    },
    "rootCredentialsSecretName": "our-root",
    "allowedNamespaces": {"from": "List", "names": ["shop", "analytics"]},
    "config": {"system.partition.enforce_fsync": "true", "heartbeat.interval": "40 s"},
    "updateStrategy": "OnDelete",
    "podTemplate": {
        "labels": {"team": "data", "app.kubernetes.io/name": "stolen"},
        "annotations": {"note": "x"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "high",
        "serviceAccountName": "theirs",
        "imagePullSecrets": [{"name": "pull"}],
        "terminationGracePeriodSeconds": 120,
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "securityContext": {"runAsUser": 4711, "seccompProfile": {"type": "Localhost",
                            "localhostProfile": "broker.json"}},
    },
    "monitoring": {"podMonitor": True, "interval": "15s", "labels": {"release": "prometheus"}},
    "networkPolicy": {"enabled": True, "allowFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}  # fmt: skip
SPECS: dict[str, dict[str, Any]] = {
    "broker-smallest": {},
    "broker-full": FULL,
    "broker-ephemeral": {
        "storage": {"ephemeral": True},
        "hibernate": True,
        "allowedNamespaces": {"from": "All"},
        "networkPolicy": {"enabled": False},
    },
    "broker-every-transport": {
        "listeners": {
            "websocketPort": 443,
            "quicPort": 443,
            "tls": {"secretName": "main-tls", "caSecretName": "authority"},
        },
    },
    "broker-archive-bucket": {
        "archiver": {
            "kind": "S3",
            "interval": "2s",
            "s3": {
                "bucket": "iggy-archive",
                "region": "eu-central-1",
                "credentialsSecretName": "archive-keys",
            },
        },
        "restoreFrom": {},
    },
    "broker-archive-https": {
        "archiver": {
            "kind": "S3",
            "s3": {
                "bucket": "iggy-archive",
                "endpoint": "https://minio:9000",
                "caSecretName": "minio-ca",
            },
        },
        "restoreFrom": {
            "s3": {
                "bucket": "elsewhere",
                "endpoint": "https://other:9000",
                "caSecretName": "other-ca",
            }
        },
    },
    "broker-archive-volume": {
        "archiver": {
            "kind": "Disk",
            "continuous": False,
            "archiveExpired": False,
            "disk": {"size": "40Gi", "storageClassName": "slow"},
        },
        "restoreFrom": {
            "s3": {
                "bucket": "elsewhere",
                "prefix": "prod/main",
                "endpoint": "http://minio:9000",
                "pathStyle": True,
                "credentialsSecretName": "elsewhere-keys",
            }
        },
    },
    "broker-archive-claims": {
        "archiver": {"kind": "Disk", "disk": {"existingClaim": "shelf"}},
        "encryption": {"secretName": "main-keys", "key": "2026", "oldKeys": ["2025", "2024"]},
        "restoreFrom": {"disk": {"existingClaim": "old-shelf"}},
    },
}


def rendered(spec: dict[str, Any]) -> list[Manifest]:
    desired = broker_of(**spec)
    return list(broker_children(desired, owner_of_broker(desired), RELEASE))


def pod_of(children: dict[str, Manifest]) -> dict[str, Any]:
    spec: dict[str, Any] = children["StatefulSet"]["spec"]["template"]["spec"]
    return spec


def environment_of(children: dict[str, Manifest]) -> dict[str, str]:
    """What the broker's process would see, without what comes from Secrets."""
    own = {
        entry["name"]: entry["value"]
        for entry in pod_of(children)["containers"][0]["env"]
        if "value" in entry
    }
    return {**children["ConfigMap"].get("data", {}), **own}


@pytest.mark.parametrize("name", SPECS)
def test_children_are_those_of_the_golden_file(name: str) -> None:
    check_golden(name, rendered(SPECS[name]))


@pytest.mark.parametrize("name", SPECS)
def test_the_pod_template_is_one_for_kubernetes(name: str) -> None:
    template = children_of(broker_of(**SPECS[name]))["StatefulSet"]["spec"]["template"]

    assert list(misfits(template, pod_schema())) == []


def values_in(spec: Any) -> list[str]:
    if isinstance(spec, dict):
        return [found for item in spec.values() for found in values_in(item)]
    if isinstance(spec, list):
        return [found for item in spec for found in values_in(item)]
    return [json.dumps(spec)]


def test_every_value_of_the_spec_shows_up() -> None:
    text = json.dumps(rendered(FULL))
    # Decide what is made, or are followed, and do not appear themselves.
    special = {'"List"', "true", '"stolen"', '"our-root"'}

    missing = [value for value in values_in(FULL) if value not in special and value not in text]

    # Numbers become text in the settings.
    assert missing == []
    assert '"stolen"' not in text
    assert '{"name": "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "value": "4"}' in text


@pytest.mark.parametrize("name", SPECS)
def test_the_pod_has_the_restricted_profile(name: str) -> None:
    pod = pod_of(children_of(broker_of(**SPECS[name])))
    containers = [*pod["containers"], *pod.get("initContainers", ())]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert pod["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["automountServiceAccountToken"] is False


def test_the_pod_can_be_tightened_and_never_loosened() -> None:
    loose = {
        "runAsUser": 0,
        "fsGroup": 0,
        "supplementalGroups": [0],
        "runAsNonRoot": False,
        "seccompProfile": {"type": "Unconfined"},
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
    }
    tight = broker_of(podTemplate={"securityContext": {"runAsUser": 7, "runAsGroup": 8}})

    found = broker_config.problems(broker_of(podTemplate={"securityContext": loose}))

    named = {line.partition(":")[0].removeprefix("podTemplate.securityContext.") for line in found}
    assert named == set(loose)
    context = pod_of(children_of(tight))["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (7, 8, USER_ID)


@pytest.mark.parametrize(
    ("wish", "addressing"),
    [
        ({"endpoint": "http://minio:9000"}, "auto"),  # by path: see the broker's setting
        ({}, "auto"),
        ({"endpoint": "http://minio:9000", "pathStyle": False}, "virtual"),
        ({"pathStyle": True}, "path"),
    ],
)
def test_where_a_buckets_name_stands_is_the_brokers_to_say_unless_it_is_said(
    wish: dict[str, Any], addressing: str
) -> None:
    children = children_of(broker_of(archiver={"kind": "S3", "s3": {"bucket": "abc", **wish}}))

    loaded = broker_settings.load(None, environment_of(children)).config

    assert loaded.data_maintenance.archiver.s3.addressing == addressing


def test_the_broker_takes_all_settings_without_a_warning() -> None:
    for spec in SPECS.values():
        environment = environment_of(children_of(broker_of(**spec)))

        loaded = broker_settings.load(None, environment)

        assert loaded.warnings == ()
        assert str(loaded.config.system.path) == broker_config.DATA_FOLDER
        assert loaded.config.tcp.address.port == transports.TCP_PORT
        assert loaded.config.monitoring.address.port == transports.MONITORING_PORT


def test_every_transport_has_the_certificate() -> None:
    children = children_of(broker_of(**SPECS["broker-every-transport"]))

    loaded = broker_settings.load(None, environment_of(children)).config

    assert tls_of(loaded).keys() == {"tcp", "http", "websocket", "quic"}
    for name, tls in tls_of(loaded).items():
        assert (tls.self_signed, tls.ca_file) == (False, ""), name
        assert tls.cert_file == f"{transports.TLS_PATH}/tls.crt"
    assert str(loaded.websocket.address) == f"0.0.0.0:{transports.WEBSOCKET_PORT}"
    assert str(loaded.quic.address) == f"0.0.0.0:{transports.QUIC_PORT}"
    probes = pod_of(children)["containers"][0]["readinessProbe"]["httpGet"]
    assert probes == {"path": "/ready", "port": "monitoring"}, "which nothing encrypts"


def test_further_settings_reach_the_broker() -> None:
    environment = environment_of(children_of(broker_of(**FULL)))

    loaded = broker_settings.load(None, environment).config

    assert loaded.system.partition.enforce_fsync is True
    assert loaded.shards_count(64) == 4


@pytest.mark.parametrize("grace_s", [20, 60, 3600])
def test_the_grace_period_is_longer_than_the_broker_needs_to_stop(grace_s: int) -> None:
    children = children_of(broker_of(podTemplate={"terminationGracePeriodSeconds": grace_s}))

    loaded = broker_settings.load(None, environment_of(children)).config

    drain_s = loaded.system.sharding.shutdown_drain_timeout_us / 1_000_000
    assert pod_of(children)["terminationGracePeriodSeconds"] == grace_s
    assert drain_s + STOP_GRACE_S < grace_s
    assert drain_s >= 1


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({}, 1),
        ({"requests": {"cpu": "500m"}}, 1),
        ({"requests": {"cpu": "3500m"}}, 3),
        ({"limits": {"cpu": "2"}}, 2),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "8"}}, 1),
    ],
)
def test_shards_follow_the_reserved_cpu(resources: dict[str, Any], count: int) -> None:
    assert broker_config.shards_count(broker_of(resources=resources)) == count


def test_nobody_but_the_allowed_may_connect() -> None:
    broker = broker_of(allowedNamespaces={"from": "List", "names": ["shop", "messaging"]})

    clients, monitoring = children_of(broker)["NetworkPolicy"]["spec"]["ingress"]

    names = [
        source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for source in clients["from"]
        if "namespaceSelector" in source
    ]
    assert clients["from"][0] == {"podSelector": {}}
    assert names == ["iggy-system", "shop"]
    assert [port["port"] for port in clients["ports"]] == ["tcp", "http"]
    assert [port["port"] for port in monitoring["ports"]] == ["monitoring"]


def test_claims_have_no_owner_and_outlive_the_broker_unless_asked_otherwise() -> None:
    kept, dropped = (
        children_of(broker_of(storage={"retentionPolicy": policy}))["StatefulSet"]["spec"]
        for policy in ("Retain", "Delete")
    )

    assert "ownerReferences" not in kept["volumeClaimTemplates"][0]["metadata"]
    assert kept["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert dropped["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
    assert kept["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"


def test_growth_leaves_the_pod_template_alone() -> None:
    small, large = (
        children_of(broker_of(storage={"size": size}))["StatefulSet"]["spec"]
        for size in ("10Gi", "20Gi")
    )

    assert small["template"] == large["template"]
    assert small["volumeClaimTemplates"] != large["volumeClaimTemplates"]


def test_an_external_broker_has_no_children() -> None:
    external = {"tcp": "a:1", "http": "http://a:2", "credentialsSecretName": "root"}

    assert rendered({"mode": "External", "external": external}) == []


@pytest.mark.parametrize("name", SPECS)
def test_what_can_be_had_has_no_problems(name: str) -> None:
    assert broker_config.problems(broker_of(**SPECS[name])) == ()


BROKER_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,38}[a-z0-9])?", fullmatch=True)
SERVICE_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"


@given(BROKER_NAMES)
def test_names_of_children_fit_with_all_that_kubernetes_appends(name: str) -> None:
    names = broker_names(name)

    assert len(f"{names.base}-0123456789") <= 63  # the label of a revision
    for own in (names.base, names.headless, names.config, names.account, names.root_secret_next):
        assert len(own) <= 63
    assert len(names.claim) <= 63
    assert re.fullmatch(SERVICE_NAME, names.base)


def test_names_differ_where_brokers_do() -> None:
    names = sorted(dns_label(name) for name in ("a.b", "a-b", "1", "a.b.c", "a-b.c", "1a"))

    assert all(one != other for one, other in pairwise(names))


def test_names_selectors_and_hashes_never_change() -> None:
    def identity(spec: dict[str, Any], name: str) -> dict[str, Any]:
        children = children_of(broker_of(name, **spec))
        wanted = children["StatefulSet"]["spec"]
        return {
            "names": {kind: child["metadata"]["name"] for kind, child in children.items()},
            "claim": broker_names(name).claim,
            "root secret": broker_names(name).root_secret,
            "selector": wanted["selector"]["matchLabels"],
            "service": wanted["serviceName"],
            "claims": wanted.get("volumeClaimTemplates"),
            "order": wanted["podManagementPolicy"],
            "asked": wanted["template"]["metadata"]["annotations"][USER_HASH],
        }

    check_frozen(
        "frozen-brokers-0.1",
        [
            identity(SPECS["broker-smallest"], "main"),
            identity(SPECS["broker-full"], "main"),
            identity({}, "1.queue"),
            identity({}, "b" * 40),
        ],
    )
