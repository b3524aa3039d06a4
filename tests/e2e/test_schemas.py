"""What the API server accepts, refuses, explains and shows; the same table judges local files."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration
from kubernetes.config import new_client_from_config

from e2e_backends import Backend
from e2e_judge import Judge, Server, install, is_served
from e2e_kubectl import Kubectl
from iggy_operator import API_GROUP, API_VERSION
from iggy_operator.schema import crd_texts, schemas
from iggy_operator.validation import check, path_text
from page_samples import OVERLAYS, Sample, samples
from resource_case import Case
from resource_cases import CASES
from resource_documents import full_topic, sink, topic
from schema_samples import CONDITION, whole_status
from waiting import wait_until

DEFINITIONS = [yaml.safe_load(text) for _, text in crd_texts()]
KINDS = sorted(schemas())
# kubectl keeps the applied object in an annotation; all annotations of an object end there.
ANNOTATION_BYTES_MAX = 256 << 10
# Of operators that are not installed; tests/samples has the definition of SparkApplications.
OF_OTHERS = ("SparkApplication", "Certificate")


@pytest.fixture(scope="module")
def server(backend: Backend) -> Server:
    """The API server with our definitions, which stay: objects of others may hang on them."""
    client = new_client_from_config(str(backend.kubeconfig), client_configuration=Configuration())
    found = Server(client)
    install(found, DEFINITIONS)
    wait_until(lambda: is_served(found), "the kinds are served")
    return found


@pytest.fixture(scope="module")
def judge(server: Server) -> Iterator[Judge]:
    name = f"schemas-{secrets.token_hex(4)}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    server.must("POST", "/api/v1/namespaces", space)
    yield Judge(server, name)
    server.must("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def here(cluster: Kubectl, judge: Judge) -> Kubectl:
    """kubectl in the judge's namespace, which all tests of this module share."""
    return cluster.at(judge.namespace)


def rule_messages(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for rule in node.get("x-kubernetes-validations", ()):
            yield rule["message"]
        for child in node.values():
            yield from rule_messages(child)


RULES = {message for schema in schemas().values() for message in rule_messages(schema.root)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_server_and_the_local_check_agree(judge: Judge, case: Case) -> None:
    old = None if case.old is None else check(case.old).value
    local = [
        (path_text(item.path) or "<root>", item.message)
        for item in check(case.value, old=old).problems
    ]

    said = judge.verdict(case.value, case.old)

    assert bool(said) != case.is_accepted, said
    assert bool(local) == bool(said)
    if said:
        assert case.path in {item.field for item in said}
        assert {item.field for item in said} <= {field for field, _ in local}
    # Types and limits come first: where one is wrong, the server leaves rules unread.
    rules = [(field, rule_of(message)) for field, message in local]
    if all(rule for _, rule in rules):
        for field, rule in rules:
            assert any(item.field == field and rule in item.message for item in said), said


def rule_of(message: str) -> str:
    """The text of the rule that a local message comes from; empty if it comes from none."""
    return next((rule for rule in RULES if message.startswith(rule)), "")


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.place)
def test_what_the_documents_show_is_accepted(here: Kubectl, sample: Sample) -> None:
    for document in sample.documents():
        expect_accepted(here, document)


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_what_overlays_make_is_accepted(here: Kubectl, folder: Path) -> None:
    text = here("kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))

    for document in Sample(folder.name, text).documents():
        expect_accepted(here, document)


def is_known(here: Kubectl, document: dict[str, Any]) -> bool:
    group = document["apiVersion"].partition("/")[0]
    return bool(here("api-resources", f"--api-group={group}", "--no-headers").strip())


def expect_accepted(here: Kubectl, document: dict[str, Any]) -> None:
    """Make it in the module's own namespace, as a dry run."""
    if document["kind"] in OF_OTHERS and not is_known(here, document):
        return
    metadata = {k: v for k, v in document["metadata"].items() if k != "namespace"}
    text = json.dumps({**document, "metadata": metadata})
    here("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_object_is_pending(judge: Judge, server: Server, kind: str) -> None:
    value = next(case.value for case in CASES if case.is_accepted and case.value["kind"] == kind)

    made = server.must("POST", f"{judge.folder(kind)}?dryRun=All", judge.here(value))

    (ready,) = made["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "Unknown", "Pending")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_status_is_stored(judge: Judge, server: Server, kind: str) -> None:
    value = next(case.value for case in CASES if case.is_accepted and case.value["kind"] == kind)
    status = whole_status(schemas()[kind].root["properties"]["status"])
    server.must("POST", judge.folder(kind), judge.here(value))
    patch = {"apiVersion": API_VERSION, "kind": kind, "status": status}

    server.apply(f"{judge.place(value)}/status", patch, manager="iggy-operator")
    found = server.must("GET", judge.place(value))
    server.must("DELETE", judge.place(value))

    assert found["status"] == status
    assert found["metadata"]["generation"] == 1, "the status is no change of the spec"


def test_a_status_that_people_write_is_not_taken(judge: Judge, server: Server) -> None:
    lie = topic("liar") | {"status": {"conditions": [CONDITION]}}

    made = server.must("POST", f"{judge.folder('IggyTopic')}?dryRun=All", judge.here(lie))

    assert made["status"]["conditions"][0]["reason"] == "Pending"


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_explains_every_field(here: Kubectl, kind: str) -> None:
    schema = schemas()[kind]
    spec, status = schema.root["properties"]["spec"], schema.root["properties"]["status"]

    text = here("explain", schema.plural, "--recursive")
    of_spec = here("explain", f"{schema.plural}.spec")

    words = set(text.split())
    for name in (*spec["properties"], *status["properties"]):
        assert name in words, name
    assert " ".join(schema.root["description"].split()) in " ".join(text.split())
    assert "<no description>" not in of_spec


def test_every_field_has_its_description_on_the_server(server: Server) -> None:
    found = server.must("GET", f"/openapi/v3/apis/{API_VERSION}")["components"]["schemas"]
    own = {name: node for name, node in found.items() if name.rsplit(".", 1)[-1] in KINDS}

    bare = [path for name, node in own.items() for path in without_description(node, name)]

    assert len(own) == len(KINDS)
    assert bare == []


def without_description(node: dict[str, Any], path: str) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        inner = child.get("items", child)
        if name != "metadata" and not child.get("description"):
            yield f"{path}.{name}"
        yield from without_description(inner, f"{path}.{name}")


def test_the_category_lists_all_kinds(here: Kubectl) -> None:
    listed = here("api-resources", f"--api-group={API_GROUP}", "--no-headers", "-o=wide")

    rows = {row.split()[0]: row.split() for row in listed.splitlines()}
    for schema in schemas().values():
        assert rows[schema.plural][1] == schema.short_name
        assert rows[schema.plural][-1] == "iggy"


def test_columns_show_what_is_there(judge: Judge, server: Server, here: Kubectl) -> None:
    ordered = topic("orders-v2", topicName="Orders.V2", partitions=3)
    carried = sink()
    for value, status in (
        (ordered, {"topicName": "Orders.V2", "partitions": 6, "messages": 1203344,
                   "sinksSummary": "2/2", "sourcesSummary": "1/1"}),
        (carried, {"application": {"state": "RUNNING"}, "progress": {"lagMessages": 412}}),
    ):  # fmt: skip
        server.must("POST", judge.folder(value["kind"]), judge.here(value))
        rows = {"status": status | {"conditions": [CONDITION]}}
        head = {"apiVersion": API_VERSION, "kind": value["kind"]}
        server.apply(f"{judge.place(value)}/status", head | rows, manager="iggy-operator")

    topics = rows_of(here("get", "igt"))
    sinks = rows_of(here("get", "igk"))
    everything = here("get", "iggy")
    here.wait("igt/orders-v2", "condition=Ready")
    for value in (ordered, carried):
        server.must("DELETE", judge.place(value))

    assert topics[0] == "NAME STREAM TOPIC PARTITIONS MESSAGES SINKS SOURCES READY REASON AGE"
    assert topics[1].startswith("orders-v2 shop Orders.V2 6 1203344 2/2 1/1 True Synced ")
    assert sinks[0] == "NAME TOPIC TYPE STATE LAG READY REASON AGE"
    assert sinks[1].startswith("orders.lake orders Files RUNNING 412 True Synced ")
    assert "iggytopic.iggykube.dev/orders-v2" in everything
    assert "iggysink.iggykube.dev/orders.lake" in everything


def rows_of(table: str) -> list[str]:
    """Lines of a table with one blank between words."""
    return [" ".join(line.split()) for line in table.splitlines()]


def test_the_definitions_can_be_applied_as_people_do(here: Kubectl) -> None:
    text = "---\n".join(text for _, text in crd_texts())

    shown = here("apply", "--dry-run=server", "-f", "-", stdin=text)

    assert shown.count("server dry run") == len(KINDS)


def test_a_topic_with_sixteen_full_sinks_is_applied_and_changed(here: Kubectl) -> None:
    first = full_topic("full")
    second = {**first, "spec": {**first["spec"], "partitions": 3}}

    here("apply", "-f", "-", stdin=json.dumps(first))
    here("apply", "-f", "-", stdin=json.dumps(second))
    found = json.loads(here("get", "igt/full", "-o=json"))
    here("delete", "igt/full")

    assert found["spec"]["partitions"] == 3
    sizes = [len(text) for text in found["metadata"]["annotations"].values()]
    assert max(sizes) < ANNOTATION_BYTES_MAX / 2


def test_a_large_annotation_is_no_obstacle(judge: Judge, server: Server) -> None:
    value = judge.here(full_topic("large"))
    value["metadata"]["annotations"] = {"example.com/notes": "x" * (200 << 10)}
    value["spec"]["sinks"][0]["payload"] = {"format": "Json", "schema": "s" * 65536}
    changed = {**value, "spec": {**value["spec"], "partitions": 2}}

    server.apply(judge.place(value), value, manager="person")
    found = server.apply(judge.place(value), changed, manager="person")
    server.must("DELETE", judge.place(value))

    assert found["spec"]["partitions"] == 2
    assert list(found["metadata"]["annotations"]) == ["example.com/notes"]


def test_a_text_beyond_its_limit_is_refused_where_it_stands(judge: Judge) -> None:
    value = full_topic("long")
    value["spec"]["sinks"][0]["payload"] = {"format": "Json", "schema": "s" * (150 << 10)}

    said = judge.verdict(value)

    assert {item.field for item in said} == {"spec.sinks[0].payload.schema"}
    assert {path_text(item.path) for item in check(value).problems} == {
        "spec.sinks[0].payload.schema"
    }


@pytest.mark.parametrize("name", ["o" * 253, "__orders", "Orders", "orders-"])
def test_a_name_that_kubernetes_or_a_label_cannot_have_is_refused(judge: Judge, name: str) -> None:
    value = topic(name)

    assert judge.verdict(value)
    assert check(value).problems
