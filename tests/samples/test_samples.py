"""What docs/samples holds is valid, and is what the demo and the documents say of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from flights_demo.flights import load_flights
from foreign_schemas import APACHE_FILE, KUBEFLOW_FILE, misfits, spec_schema
from iggy_operator.desired import broker_config
from iggy_operator.launchers import children
from iggy_operator.resources import load
from iggy_spark import schema
from launcher_cases import job_of
from page_samples import SAMPLES, Sample, blocks, samples

FLIGHTS = next(path for path in SAMPLES if path.name == "flights.yaml")


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.place)
def test_resources_in_the_documents_pass_the_checks(sample: Sample, tmp_path: Path) -> None:
    file = tmp_path / "sample.yaml"
    file.write_text(sample.text)

    resources = load([file])

    # Objects of Kubernetes itself are left alone here; the API server judges them in tests/e2e.
    assert resources.documents or resources.skipped


@pytest.mark.parametrize("sample", list(blocks()), ids=lambda sample: sample.place)
def test_what_the_pages_show_is_in_this_version(sample: Sample, tmp_path: Path) -> None:
    file = tmp_path / "sample.yaml"
    file.write_text(sample.text)

    resources = load([file])

    sinks = [*resources.sinks, *(sink for topic in resources.topics for sink in topic.sinks)]
    assert [line for sink in sinks for line in children.problems(job_of(sink), "Native")] == []
    assert [line for item in resources.brokers for line in broker_config.problems(item)] == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_needs_nothing_beside_it(path: Path) -> None:
    assert load([path]).skipped == ()


@pytest.mark.parametrize(
    ("group", "file"), [("sparkoperator.k8s.io", KUBEFLOW_FILE), ("spark.apache.org", APACHE_FILE)]
)
def test_spark_applications_in_the_documents_fit_their_operators(group: str, file: str) -> None:
    shown = [
        document
        for sample in samples()
        for document in sample.documents()
        if document["apiVersion"].startswith(group)
    ]

    assert shown
    for document in shown:
        version = document["apiVersion"].partition("/")[2]
        assert list(misfits(document["spec"], spec_schema(file, version))) == []


def test_the_flights_sample_is_a_topic_with_a_lake() -> None:
    resources = load([FLIGHTS])

    (stream,) = resources.streams
    (topic,) = resources.topics
    (sink,) = topic.sinks
    assert stream.stream_name == "flights"
    assert (topic.topic_name, topic.partitions_count) == ("departures", 6)
    assert (sink.type, sink.spec["files"]["partitionBy"]) == ("Files", ["month"])


def test_the_flights_sample_declares_every_column_of_the_input() -> None:
    (topic,) = load([FLIGHTS]).topics

    fields = schema.parse(topic.sinks[0].spec["payload"]["schema"], name="schema")

    assert [field.name for field in fields] == load_flights(1).column_names


def test_the_flights_on_s3_are_the_flights_with_files_in_a_bucket(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    folder = FLIGHTS.parent / "flights-on-s3"
    command = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    file = tmp_path / "rendered.yaml"
    file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    (plain,), (topic,) = load([FLIGHTS]).topics, load([file]).topics

    (before,), (after,) = plain.sinks, topic.sinks
    assert after.spec["files"]["path"] == "s3a://lake/departures"
    assert after.spec["checkpoint"]["volume"]["accessMode"] == "ReadWriteOnce"
    assert children.problems(job_of(after), "Native") == ()
    changed = {"files", "checkpoint", "spark"}
    assert {name: value for name, value in after.spec.items() if name not in changed} == {
        name: value for name, value in before.spec.items() if name not in changed
    }
