"""A managed broker that clients outside the cluster reach."""

from typing import Any

import pytest
import yaml

from desired_cases import broker_of, children_of
from iggy_operator.cluster import Ref
from iggy_operator.desired import broker_config
from managed_world import BROKER, POD, ManagedWorld, run_managed, started

SERVICE = Ref("Service", "shop", "main")
BALANCED: dict[str, Any] = {"serviceType": "LoadBalancer"}
WHOLE = {
    **BALANCED,
    "nodePort": 31000,
    "externalTrafficPolicy": "Local",
    "loadBalancerClass": "example/public",
    "loadBalancerIP": "192.0.2.7",
    "sourceRanges": ["203.0.113.0/24", "2001:db8::/32"],
    "advertisedAddress": "iggy.example:9000",
    "serviceAnnotations": {"example/scheme": "public"},
}


def listeners(**fields: Any) -> dict[str, Any]:
    return {"serviceType": "ClusterIP", "tcpPort": 8090, "httpPort": 3000} | fields


def test_the_service_is_as_asked_for() -> None:
    service = children_of(broker_of(listeners=listeners(**WHOLE)))["Service"]

    assert service["metadata"]["annotations"] == {"example/scheme": "public"}
    spec = service["spec"]
    assert spec["type"] == "LoadBalancer"
    assert spec["ports"][0]["nodePort"] == 31000
    assert spec["externalTrafficPolicy"] == "Local"
    assert (spec["loadBalancerClass"], spec["loadBalancerIP"]) == ("example/public", "192.0.2.7")
    assert spec["loadBalancerSourceRanges"] == ["2001:db8::/32", "203.0.113.0/24"]


def test_a_service_inside_says_nothing_of_the_outside() -> None:
    spec = children_of(broker_of())["Service"]["spec"]

    assert set(spec) == {"type", "selector", "ports"}
    assert "nodePort" not in spec["ports"][0]


def test_the_network_policy_lets_the_named_networks_in_and_no_other() -> None:
    rules = children_of(broker_of(listeners=listeners(**WHOLE)))["NetworkPolicy"]["spec"]["ingress"]

    blocks = [item["ipBlock"]["cidr"] for item in rules[0]["from"] if "ipBlock" in item]
    assert blocks == ["2001:db8::/32", "203.0.113.0/24"]
    assert "ipBlock" not in yaml.safe_dump(rules[1]), "the monitoring port stays inside"


def test_pods_of_sinks_are_let_in_wherever_their_topic_may_be() -> None:
    allowed = {"from": "List", "names": ["analytics"]}
    policy = children_of(broker_of(allowedNamespaces=allowed))["NetworkPolicy"]["spec"]

    sources = policy["ingress"][0]["from"]
    assert {"podSelector": {}} in sources  # drivers and executors beside the broker
    label = "kubernetes.io/metadata.name"
    names = {
        item["namespaceSelector"]["matchLabels"][label]
        for item in sources
        if "namespaceSelector" in item
    }
    assert names == {"analytics", "iggy-system"}


def test_the_broker_is_told_the_address_and_restarts_for_nothing_else() -> None:
    def hashes(**fields: Any) -> dict[str, str]:
        template = children_of(broker_of(listeners=listeners(**fields)))["StatefulSet"]["spec"]
        marks: dict[str, str] = template["template"]["metadata"]["annotations"]
        return marks

    quiet = {name: item for name, item in WHOLE.items() if name != "advertisedAddress"}

    assert hashes(**quiet) == hashes()
    assert hashes(**WHOLE) != hashes()
    settings = broker_config.settings(broker_of(listeners=listeners(**WHOLE)))
    assert settings["IGGY_TCP_ADVERTISED_ADDRESS"] == "iggy.example:9000"
    assert "IGGY_TCP_ADVERTISED_ADDRESS" not in broker_config.settings(broker_of())


@pytest.mark.parametrize("cidr", ["203.0.113.7/24", "999.0.0.0/8", "::::/3"])
def test_a_network_that_kubernetes_would_refuse_is_named(cidr: str) -> None:
    problems = broker_config.problems(
        broker_of(listeners=listeners(serviceType="NodePort", sourceRanges=[cidr]))
    )

    assert len(problems) == 1
    assert "listeners.sourceRanges" in problems[0]
    assert cidr in problems[0]


@pytest.mark.parametrize(
    ("fields", "status", "external"),
    [
        (BALANCED, None, None),
        (BALANCED, {"ingress": [{"ip": "192.0.2.7"}]}, "192.0.2.7:8090"),
        (BALANCED, {"ingress": [{"hostname": "lb.example"}]}, "lb.example:8090"),
        (BALANCED, {"ingress": [{"ip": "2001:db8::7"}]}, "[2001:db8::7]:8090"),
        ({"serviceType": "NodePort", "nodePort": 31000}, None, "NODE:31000"),
        (BALANCED | {"advertisedAddress": "iggy.example"}, None, "iggy.example:8090"),
        (BALANCED | {"advertisedAddress": "iggy.example:9"}, None, "iggy.example:9"),
        ({"advertisedAddress": "proxy.example:443"}, None, "proxy.example:443"),
        ({"advertisedAddress": "[2001:db8::7]"}, None, "[2001:db8::7]:8090"),
        ({}, None, None),
    ],
)
def test_the_status_says_where_clients_outside_find_it(
    fields: dict[str, Any], status: dict[str, Any] | None, external: str | None
) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, listeners=listeners(**fields))
        if status is not None:
            world.cluster.change(SERVICE, status={"loadBalancer": status})
        await world.go(70)

        endpoints = world.status(BROKER)["endpoints"]
        assert endpoints["tcp"] == "main.shop.svc:8090"
        assert endpoints.get("external") == external

    run_managed(scenario)


def test_a_way_in_that_nobody_may_use_is_said() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, listeners=listeners(**BALANCED))
        assert "listeners.sourceRanges" in world.message(BROKER)
        assert world.says(BROKER) == ("True", "Synced")

        given = listeners(**BALANCED, sourceRanges=["203.0.113.0/24"])
        world.cluster.change_spec(BROKER, listeners=given)
        await world.go(70)
        assert "sourceRanges" not in world.message(BROKER)

    run_managed(scenario)


def test_a_broker_moves_out_and_in_again_without_a_restart() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod, service = world.uid(POD), world.uid(SERVICE)
        outside = {name: item for name, item in WHOLE.items() if name != "advertisedAddress"}
        world.cluster.change_spec(BROKER, listeners=listeners(**outside))
        await world.go(70)
        assert world.spec(SERVICE)["type"] == "LoadBalancer"

        world.cluster.change_spec(BROKER, listeners=listeners())
        await world.go(70)

        assert set(world.spec(SERVICE)) == {"type", "selector", "ports"}
        assert (world.uid(POD), world.uid(SERVICE)) == (pod, service)
        assert "external" not in world.status(BROKER)["endpoints"]

    run_managed(scenario)
