"""The chart of the topology: any field of the resources, by mapping or list, checked by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_schemas import PARTS
from helm_program import HelmRefused, Manifest, needs_helm, of_kind, parsed, rendered, template
from iggy_operator.resources import load
from resource_cases import CASES

pytestmark = needs_helm
TOPOLOGY = "iggy-topology"
EVERYTHING: dict[str, Any] = {
    "brokers": {"main": {"storage": {"size": "20Gi"}}},
    "streams": {"shop": {"brokerRef": {"name": "main"}}, "plain": None},
    "topics": {"orders": {"streamRef": {"name": "shop"}, "partitions": 6}},
    "users": {"fraud": {"brokerRef": {"name": "main"}}},
}


def as_lists(values: dict[str, Any]) -> dict[str, Any]:
    return {
        part: [{"name": name, **(entry or {})} for name, entry in entries.items()]
        for part, entries in values.items()
    }


def by_name(manifests: list[Manifest]) -> list[Manifest]:
    return sorted(manifests, key=lambda item: (item["kind"], item["metadata"]["name"]))


def test_nothing_is_made_of_nothing() -> None:
    assert rendered(TOPOLOGY) == []
    assert rendered(TOPOLOGY, dict.fromkeys(PARTS)) == []


def test_a_mapping_and_a_list_are_the_same() -> None:
    from_mapping = by_name(rendered(TOPOLOGY, EVERYTHING))

    assert from_mapping == by_name(rendered(TOPOLOGY, as_lists(EVERYTHING)))
    assert [(item["kind"], item["metadata"]["name"], item["spec"]) for item in from_mapping] == [
        ("IggyBroker", "main", {"storage": {"size": "20Gi"}}),
        ("IggyStream", "plain", {}),
        ("IggyStream", "shop", {"brokerRef": {"name": "main"}}),
        ("IggyTopic", "orders", {"streamRef": {"name": "shop"}, "partitions": 6}),
        ("IggyUser", "fraud", {"brokerRef": {"name": "main"}}),
    ]


def test_namespace_labels_and_annotations_are_for_all_or_for_one() -> None:
    values = {
        "namespace": "elsewhere",
        "labels": {"team": "shop", "tier": "1"},
        "annotations": {"note": "all"},
        "streams": {
            "one": {},
            "two": {"namespace": "there", "labels": {"tier": "2"}, "annotations": {"note": "own"}},
        },
    }

    one, two = by_name(rendered(TOPOLOGY, values))

    assert one["metadata"]["namespace"] == "elsewhere"
    assert two["metadata"]["namespace"] == "there"
    assert (one["metadata"]["labels"]["tier"], two["metadata"]["labels"]["tier"]) == ("1", "2")
    assert two["metadata"]["labels"]["team"] == "shop"
    assert one["metadata"]["annotations"] == {"note": "all"}
    assert two["metadata"]["annotations"] == {"note": "own"}
    assert (one["spec"], two["spec"]) == ({}, {})


# Documents that the resources' own checks accept: the chart carries each of them unchanged.
ACCEPTED = [case.value for case in CASES if case.is_accepted and case.old is None
            and case.value["kind"] in PARTS.values() and "spec" in case.value]  # fmt: skip


def test_every_accepted_document_can_be_written_as_values() -> None:
    values: dict[str, Any] = {part: [] for part in PARTS}
    wanted: dict[tuple[str, str], Any] = {}
    for number, value in enumerate(ACCEPTED):
        kind, name = value["kind"], f"case-{number}"
        (part,) = [part for part, its_kind in PARTS.items() if its_kind == kind]
        values[part].append({"name": name, **value["spec"]})
        wanted[kind, name] = value["spec"]

    manifests = rendered(TOPOLOGY, values)

    found = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in manifests}
    assert found == wanted
    assert {kind for kind, _ in found} == set(PARTS.values())


def test_numbers_of_a_brokers_config_become_text_digit_for_digit() -> None:
    config = {
        "system.segment.size": 1_073_741_824, "system.retention": 21_600_000, "a.b": 2_000_000,
        "c.d": True, "e.f": "256 MiB", "g.h": 0.5,
    }  # fmt: skip

    (broker,) = rendered(TOPOLOGY, {"brokers": {"main": {"config": config}}})

    assert broker["spec"]["config"] == {
        "system.segment.size": "1073741824", "system.retention": "21600000", "a.b": "2000000",
        "c.d": "true", "e.f": "256 MiB", "g.h": "0.5",
    }  # fmt: skip


def test_no_number_has_an_exponent() -> None:
    text = template(
        TOPOLOGY,
        arguments=[
            "--set", "topics.orders.streamRef.name=shop",
            "--set", "topics.orders.durability.profile=Custom",
            "--set", "topics.orders.durability.flushMessages=16777216",
            "--set", "brokers.main.config.x=1073741824",
            "--set", "brokers.main.podTemplate.securityContext.runAsUser=1000650000",
        ],
    )  # fmt: skip

    assert "flushMessages: 16777216\n" in text
    assert "runAsUser: 1000650000\n" in text
    assert 'x: "1073741824"\n' in text
    assert "e+" not in text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"topic": {}}, ("topic",)),
        ({"topics": {"orders": {"partitions": 6}}}, ("orders", "streamRef")),
        ({"topics": {"orders": {"streamRef": {"name": "s"}, "partition": 6}}}, ("partition",)),
        ({"topics": {"a": {"streamRef": {"name": "s"}, "partitions": "six"}}}, ("partitions",)),
        ({"brokers": {"main": {"storage": {"sise": "1Gi"}}}}, ("storage", "sise")),
        ({"brokers": {"main": {"password": "x"}}}, ("password",)),
        ({"streams": [{"brokerRef": {"name": "main"}}]}, ("name",)),
        ({"streams": {"Shop": {}}}, ("Shop",)),
        ({"streams": [{"name": "shop"}, {"name": "shop"}]}, ("IggyStream shop", "twice")),
    ],
    ids=lambda item: str(item)[:40],
)
def test_what_is_wrong_is_refused_by_its_name(
    values: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(HelmRefused) as refused:
        template(TOPOLOGY, values)

    for word in words:
        assert word in str(refused.value)


def test_no_secret_is_made_and_two_renders_are_the_same() -> None:
    first = template(TOPOLOGY, EVERYTHING)

    assert first == template(TOPOLOGY, EVERYTHING)
    assert of_kind(parsed(first), "Secret") == []
    assert "password" not in first


def test_what_is_rendered_passes_the_checks_of_the_resources(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(rendered(TOPOLOGY, EVERYTHING)))

    resources = load([tmp_path / "all.yaml"])

    assert [topic.topic_name for topic in resources.topics] == ["orders"]
