"""The children of a managed broker, in the order in which they are made."""

from collections.abc import Mapping
from typing import Any, Final

from iggy_operator.desired import broker_config, transports
from iggy_operator.desired.archive import claim_wishes
from iggy_operator.desired.broker_names import (
    ARCHIVE_VOLUME,
    DATA_VOLUME,
    BrokerNames,
    broker_names,
)
from iggy_operator.desired.broker_pod import pod_template
from iggy_operator.desired.claims import volume_claim
from iggy_operator.desired.metadata import BROKER_LABEL, Family, Manifest, Owner, labels
from iggy_operator.desired.release import Release
from iggy_operator.resources import Broker

REVISIONS_KEPT: Final = 2
_SELECTOR: Final = ("app.kubernetes.io/name", "app.kubernetes.io/instance")
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def broker_children(
    broker: Broker, owner: Owner, release: Release, *, restart_at: str = ""
) -> tuple[Manifest, ...]:
    """Everything but Secrets; nothing for an external broker. `staging.stage` the StatefulSet.

    `restart_at`: the annotation with which somebody asks for a restart. The spec must have passed
    `broker_config.problems`.
    """
    if broker.mode == "External":
        return ()
    family = broker_family(broker, owner)
    names = broker_names(broker.key.name)
    template = pod_template(broker, family, release, restart_at=restart_at)
    children = [
        _service_account(names, family) if _makes_account(broker) else None,
        _config_map(broker, names, family),
        _network_policy(broker, names, family, release),
        _headless_service(names, family),
        _client_service(broker, names, family),
        _stateful_set(broker, names, family, template),
        _pod_monitor(broker, names, family),
    ]
    return tuple(child for child in children if child is not None)


def broker_family(broker: Broker, owner: Owner) -> Family:
    """Labels and owner of everything that belongs to a broker."""
    name = broker.key.name
    return Family(broker.key.namespace, labels("broker", name, {BROKER_LABEL: name}), owner)


def selector(family: Family) -> dict[str, str]:
    """The labels by which Services and the StatefulSet find the pod. They can never change."""
    return {name: family.labels[name] for name in _SELECTOR}


def _makes_account(broker: Broker) -> bool:
    return "serviceAccountName" not in broker.spec.get("podTemplate", {})


def _service_account(names: BrokerNames, family: Family) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": family.metadata(names.account),
        "automountServiceAccountToken": False,
    }


def _config_map(broker: Broker, names: BrokerNames, family: Family) -> Manifest:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": family.metadata(names.config),
    }
    # The API server drops an empty one, and what it has would then differ for ever.
    if data := broker_config.further_settings(broker):
        manifest["data"] = data
    return manifest


def _client_service(broker: Broker, names: BrokerNames, family: Family) -> Manifest:
    listeners = broker.spec["listeners"]
    annotations = listeners.get("serviceAnnotations", {})
    tcp, *others = transports.service_ports(broker)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": family.metadata(names.base, annotations=annotations),
        "spec": {
            "type": listeners["serviceType"],
            "selector": selector(family),
            "ports": [{**tcp, **_chosen(listeners, "nodePort")}, *others],
            **_chosen(listeners, "externalTrafficPolicy", "loadBalancerClass", "loadBalancerIP"),
            **_source_ranges(listeners),
        },
    }


def _chosen(listeners: Mapping[str, Any], *names: str) -> Manifest:
    return {name: listeners[name] for name in names if name in listeners}


def _source_ranges(listeners: Mapping[str, Any]) -> Manifest:
    """For the load balancer itself: where it obeys, others do not even reach a node."""
    ranges = listeners.get("sourceRanges", ())
    if not ranges or listeners["serviceType"] != "LoadBalancer":
        return {}
    return {"loadBalancerSourceRanges": sorted(ranges)}


def _headless_service(names: BrokerNames, family: Family) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": family.metadata(names.headless),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(family),
            "ports": [
                transports.service_port("tcp", transports.TCP_PORT),
                transports.service_port("http", transports.HTTP_PORT),
                transports.service_port("monitoring", transports.MONITORING_PORT),
            ],
        },
    }


def _stateful_set(
    broker: Broker, names: BrokerNames, family: Family, template: Manifest
) -> Manifest:
    storage = broker.spec["storage"]
    is_automatic = broker.spec["updateStrategy"] == "Automatic"
    spec: Manifest = {
        "replicas": 0 if broker.spec["hibernate"] else 1,
        "serviceName": names.headless,
        "selector": {"matchLabels": selector(family)},
        # One pod has no order. With OrderedReady, one that never got ready is never replaced.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate" if is_automatic else "OnDelete"},
        "revisionHistoryLimit": REVISIONS_KEPT,
        "template": template,
    }
    if claims := _claim_templates(broker, family):
        spec["volumeClaimTemplates"] = claims
        spec["persistentVolumeClaimRetentionPolicy"] = {
            "whenDeleted": storage["retentionPolicy"],
            "whenScaled": "Retain",
        }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": family.metadata(names.base),
        "spec": spec,
    }


def _claim_templates(broker: Broker, family: Family) -> list[Manifest]:
    storage = broker.spec["storage"]
    wanted = {
        DATA_VOLUME: None if storage["ephemeral"] else storage,
        ARCHIVE_VOLUME: claim_wishes(broker),
    }
    return [
        volume_claim(wishes, {"name": name, "labels": dict(family.labels)})
        for name, wishes in wanted.items()
        if wishes is not None
    ]


def _network_policy(
    broker: Broker, names: BrokerNames, family: Family, release: Release
) -> Manifest | None:
    policy = broker.spec["networkPolicy"]
    if not policy["enabled"]:
        return None
    outside = [
        {"ipBlock": {"cidr": cidr}}
        for cidr in sorted(broker.spec["listeners"].get("sourceRanges", ()))
    ]
    clients = _client_sources(broker, release) + outside + list(policy.get("allowFrom", ()))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": family.metadata(names.base),
        "spec": {
            "podSelector": {"matchLabels": selector(family)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": clients, "ports": transports.client_ports(broker)},
                # Prometheus may live in any namespace; there is no message data on this port.
                {
                    "from": [{"namespaceSelector": {}}],
                    "ports": [{"port": "monitoring", "protocol": "TCP"}],
                },
            ],
        },
    }


def _client_sources(broker: Broker, release: Release) -> list[Manifest]:
    allowed = broker.spec["allowedNamespaces"]
    if allowed["from"] == "All":
        return [{"namespaceSelector": {}}]
    others = {*allowed.get("names", ()), release.operator_namespace} - {broker.key.namespace}
    return [
        {"podSelector": {}},
        *({"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: name}}}
          for name in sorted(others)),
    ]  # fmt: skip


def _pod_monitor(broker: Broker, names: BrokerNames, family: Family) -> Manifest | None:
    """For Prometheus' own operator, whose resource type must be installed."""
    monitoring = broker.spec["monitoring"]
    if not monitoring["podMonitor"]:
        return None
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": family.metadata(names.base, labels=monitoring.get("labels")),
        "spec": {
            "selector": {"matchLabels": selector(family)},
            "podMetricsEndpoints": [
                {"port": "monitoring", "path": "/metrics", "interval": monitoring["interval"]}
            ],
        },
    }
