"""How kopf is set and used, read back; what nobody may change without noticing."""

import re
from pathlib import Path

import kopf
import pytest

import iggy_operator
from iggy_operator.cluster import Ref
from iggy_operator.program.api_kinds import API_KINDS, OPENAPI_PATH, WATCHED_CHILDREN, path_of
from iggy_operator.program.children import SELECTOR, owner_of_child
from iggy_operator.program.watch_settings import kopf_settings, registry_for


def test_the_settings_that_are_pinned() -> None:
    settings = kopf_settings(600)

    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is True
    assert settings.persistence.finalizer == "iggykube.dev/in-broker-kopf"
    progress, diffbase = (
        settings.persistence.progress_storage,
        settings.persistence.diffbase_storage,
    )
    assert isinstance(progress, kopf.AnnotationsProgressStorage)
    assert isinstance(diffbase, kopf.AnnotationsDiffBaseStorage)
    assert progress.prefix == diffbase.prefix == "iggykube.dev"
    assert settings.watching.server_timeout == 300
    assert settings.watching.inactivity_timeout == 70
    assert settings.watching.connect_timeout == 10
    assert settings.networking.request_timeout == 30
    assert settings.networking.connect_timeout == 10
    assert settings.execution.max_workers == 2
    assert settings.process.ultimate_exiting_timeout is None
    # A list of 2^31 characters is no integer to the API server: it must be one.
    assert isinstance(settings.watching.server_timeout, int)


def test_a_shorter_silence_shortens_what_ends_a_watch() -> None:
    settings = kopf_settings(20)

    assert settings.watching.server_timeout == 10
    assert settings.watching.inactivity_timeout == 5


@pytest.mark.parametrize("kind", WATCHED_CHILDREN)
def test_children_are_watched_with_our_label_only(kind: str) -> None:
    selectors = kopf_settings(600).watching.label_selectors
    group, _, version = API_KINDS[kind].api_version.rpartition("/")

    assert selectors[group, version, API_KINDS[kind].plural] == SELECTOR
    assert SELECTOR == "app.kubernetes.io/managed-by=iggy-operator"


def test_nothing_but_events_is_handled() -> None:
    registry = registry_for(["IggyTopic", "Pod"], print)

    assert len(registry._watching.get_all_handlers()) == 2
    for others in (registry._indexing, registry._spawning, registry._changing, registry._webhooks):
        assert not others.get_all_handlers()


def test_no_handler_that_marks_objects_is_anywhere_in_the_code() -> None:
    forbidden = re.compile(r"kopf\.(timer|daemon|index|on\.(create|update|delete|resume|field))")
    folder = Path(iggy_operator.__file__).parent

    assert [path.name for path in folder.rglob("*.py") if forbidden.search(path.read_text())] == []


def test_paths_of_the_api() -> None:
    assert path_of(Ref("Pod", "a", "b")) == "/api/v1/namespaces/a/pods/b"
    topic = Ref("IggyTopic", "a", "b")
    own = "/apis/iggykube.dev/v1alpha1/namespaces/a/iggytopics/b/status"
    assert path_of(topic, subresource="status") == own
    assert path_of(Ref("StorageClass", "", "fast")) == "/apis/storage.k8s.io/v1/storageclasses/fast"
    assert API_KINDS["Job"].path() == "/apis/batch/v1/jobs"
    spark = path_of(Ref("SparkApplication.spark.apache.org", "a", "b"))
    assert spark == "/apis/spark.apache.org/v1/namespaces/a/sparkapplications/b"
    assert OPENAPI_PATH == "/openapi/v3/apis/iggykube.dev/v1alpha1"


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"iggykube.dev/sink": "t.lake", "iggykube.dev/broker": "main"}, ("IggySink", "t.lake")),
        ({"iggykube.dev/broker": "main"}, ("IggyBroker", "main")),
        ({"iggykube.dev/topic": "t"}, None),
        ({}, None),
    ],
)
def test_a_child_belongs_to_whom_its_labels_name(
    labels: dict[str, str], owner: tuple[str, str] | None
) -> None:
    child = {"metadata": {"name": "x", "namespace": "shop", "labels": labels}}

    wanted = None if owner is None else Ref(owner[0], "shop", owner[1])
    assert owner_of_child(child) == wanted
    if not labels:
        assert owner_of_child({"metadata": {"name": "x", "namespace": "shop"}}) is None
