import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from iggy_operator import API_GROUP, API_VERSION
from iggy_operator.documents import LOADER
from iggy_operator.schema import crd_texts, schemas
from iggy_operator.validation import PATTERN_FIXES, pattern_rule
from schema_samples import nodes

REPOSITORY = Path(__file__).parents[2]
# kubectl apply keeps the whole object as JSON in an annotation, and annotations end at 256 KiB.
APPLIED_BYTES_MAX = 200_000
FILES = dict(crd_texts())


@cache
def definition(file: str) -> dict[str, Any]:
    value: dict[str, Any] = yaml.load(FILES[file], Loader=LOADER)
    return value


def root(file: str) -> dict[str, Any]:
    schema: dict[str, Any] = definition(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_the_package_carries_the_files_of_crds() -> None:
    on_disk = {path.name: path.read_text() for path in (REPOSITORY / "crds").glob("*.yaml")}

    assert on_disk == FILES
    assert sorted(schemas()) == [
        "IggyBroker", "IggySink", "IggySource", "IggyStream", "IggyTopic", "IggyUser",
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_a_file_can_be_applied(file: str) -> None:
    value = definition(file)

    assert value["spec"]["group"] == API_GROUP
    assert f"{API_GROUP}/{value['spec']['versions'][0]['name']}" == API_VERSION
    assert value["metadata"]["name"] == f"{value['spec']['names']['plural']}.{API_GROUP}"
    assert file == f"{value['spec']['names']['plural']}.yaml"
    assert len(json.dumps(value, separators=(",", ":")).encode()) < APPLIED_BYTES_MAX


@pytest.mark.parametrize("file", FILES)
def test_every_field_says_what_it_is_for(file: str) -> None:
    fields = [
        (path, node)
        for path, node in nodes(root(file))
        if path != ".metadata"  # the API server describes it, and refuses a description of ours
        and (not path.endswith(("[]", "{}")) or node.get("type") == "object")
    ]

    bare = [path for path, node in fields if len(node.get("description", "")) < 5]
    assert not bare


@pytest.mark.parametrize("file", FILES)
def test_every_pattern_is_explained_in_words(file: str) -> None:
    """By a rule beside it, since the API server shows people the bare pattern."""
    spec = root(file)["properties"]["spec"]

    unexplained = [
        path
        for path, node in nodes(spec)
        if "pattern" in node
        and {"rule": pattern_rule(node["pattern"]), "message": PATTERN_FIXES.get(node["pattern"])}
        not in node.get("x-kubernetes-validations", [])
    ]

    assert unexplained == []


@pytest.mark.parametrize("file", FILES)
def test_what_rules_read_is_bounded(file: str) -> None:
    """The API server estimates the cost of rules from the limits of what they read."""
    spec = root(file)["properties"]["spec"]

    unbounded = [
        path
        for path, node in nodes(spec)
        if (node.get("type") == "array" and "maxItems" not in node)
        or (isinstance(node.get("additionalProperties"), dict) and "maxProperties" not in node)
        or (node.get("type") == "string" and not {"maxLength", "enum"} & set(node))
    ]

    assert not unbounded


@pytest.mark.parametrize("file", FILES)
def test_every_rule_has_a_message_with_the_fix(file: str) -> None:
    rules = [
        rule for _, node in nodes(root(file)) for rule in node.get("x-kubernetes-validations", [])
    ]

    assert rules
    assert not [rule for rule in rules if len(rule["message"]) < 15]


@pytest.mark.parametrize("file", FILES)
def test_a_default_holds_the_defaults_below_it(file: str) -> None:
    """The API server checks a default against the rules before it fills in nested ones."""
    incomplete = [
        path
        for path, node in nodes(root(file)["properties"]["spec"])
        if isinstance(node.get("default"), dict)
        for name, child in node["properties"].items()
        if "default" in child and name not in node["default"]
    ]

    assert not incomplete


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_a_sink_or_source_has_the_same_fields_in_a_topic_and_on_its_own(kind: str) -> None:
    entry = root("iggytopics.yaml")["properties"]["spec"]["properties"][f"{kind}s"]["items"]
    own = root(f"iggy{kind}s.yaml")["properties"]["spec"]

    entry_fields = {k: v for k, v in entry["properties"].items() if k != "name"}
    own_fields = {k: v for k, v in own["properties"].items() if k != "topicRef"}

    assert entry_fields == own_fields
    assert entry["x-kubernetes-validations"] == own["x-kubernetes-validations"]
    assert set(entry["required"]) - {"name"} == set(own["required"]) - {"topicRef"}


def test_every_object_is_pending_from_birth() -> None:
    for file in FILES:
        default = root(file)["properties"]["status"]["default"]

        assert [item["type"] for item in default["conditions"]] == ["Ready"]
        assert default["conditions"][0]["status"] == "Unknown"
