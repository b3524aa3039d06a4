"""Sources on one machine: what is planned, what is refused, how they are followed and shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_program import clean_environment, run_program
from iggy_operator.documents import DocumentErrors
from iggy_operator.resources import load
from iggykube import view
from iggykube.local import Folders, LocalInstance, Ports, Snapshot, SourceRow
from iggykube.local.plan import LocalPlan, make_plan
from iggykube.local.snapshot import JobState
from local_instances import local_instance, resources_of, use_fake_job
from source_blocks import SYSTEMS

STREAM = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
"""
TOPIC = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec: {streamRef: {name: shop}, sources: [%s], sinks: [%s]}
"""
OWN = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggySource
metadata: {name: %s}
spec: {topicRef: {name: %s}, type: Random, random: {}, checkpoint: {volume: {}}}
"""
MADE = "{name: made, type: Random, random: {rate: %d}, checkpoint: {volume: {}}, spark: {%s}}"
DROP = "{name: drop, type: Files, files: {path: %s}, checkpoint: {volume: {}}}"
LAKE = "{name: %s, type: Files, files: {path: lake}, checkpoint: {volume: {}}, suspend: true}"
POLLED = (
    "{name: pg, type: Postgres, postgres: {url: 'postgresql://pg:5432/shop', mode: Polling, "
    "tables: [a.b], cursorColumn: id, keyColumns: [id], credentialsSecretName: pg}, "
    "checkpoint: {volume: {}}}"
)
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: %s}
stringData: %s
"""
ENVIRONMENT = clean_environment()  # without the fake job
pytestmark = pytest.mark.timeout(120)


def text_of(*documents: str) -> str:
    return "---\n".join(documents)


def topic(*sources: str, sinks: str = "") -> str:
    return TOPIC % (", ".join(sources), sinks)


def made(exits: str = "-", rate: int = 10) -> str:
    return MADE % (rate, f'conf: {{fake.exits: "{exits}"}}')


def plan(tmp_path: Path, *documents: str) -> LocalPlan:
    path = tmp_path / "shop.yaml"
    path.write_text(text_of(*documents))
    return make_plan(load([path]), Folders.at(tmp_path / "data"), Ports(8090, 9099))


def test_the_job_of_a_source_is_made_as_that_of_a_sink(tmp_path: Path) -> None:
    found = plan(tmp_path, STREAM, topic(DROP % "in/orders", sinks=LAKE % "lake"))

    sink, source = (item.job for item in found.jobs)
    same = ("broker", "stream", "topic", "once")
    assert {name: source[name] for name in same} == {name: sink[name] for name in same}
    assert source["source"]["files"]["path"] == f"{tmp_path}/data/files/in/orders"
    assert source["checkpoint"] == f"{tmp_path}/data/claims/default/orders.drop-checkpoint"
    assert (source["name"], "sink" in source) == ("orders.drop", False)
    assert set(source["source"]["spark"]) == {"driver", "conf"}
    assert not {"checkpoint", "restart", "suspend", "name"} & set(source["source"])


@pytest.mark.parametrize("kind", SYSTEMS)
def test_logins_are_folders_and_the_job_takes_the_rest(tmp_path: Path, kind: str) -> None:
    block = SYSTEMS[kind]
    entry = {"name": "x", "type": kind, kind.lower(): block, "checkpoint": {"volume": {}}}
    keys = ("username", "password", "clientId", "clientSecret", "ca.crt")
    keys += ("accessKeyId", "secretAccessKey")
    places = {**block, **block.get("s3", {})}
    named = {field: item for field, item in places.items() if field.endswith("SecretName")}
    values = json.dumps(dict.fromkeys(keys, "x"))
    secrets = [SECRET % (name, values) for name in named.values()]

    (job,) = plan(tmp_path, STREAM, topic(json.dumps(entry)), *secrets).jobs

    found = job.job["source"][kind.lower()]
    paths = {**found, **found.get("s3", {})}
    for field, name in named.items():
        folder = f"{tmp_path}/data/secrets/sinks/default/{name}"
        assert paths[field.replace("SecretName", "Path")] == folder
        assert field not in paths


def test_a_source_of_its_own_joins_its_topic(tmp_path: Path) -> None:
    found = plan(tmp_path, STREAM, topic(), OWN % ("filler", "orders"))

    assert [item.title for item in found.topics[0].jobs] == ["source filler"]
    assert found.jobs[0].stream_name == "shop"


def test_what_is_for_a_cluster_alone_is_told(tmp_path: Path) -> None:
    found = plan(tmp_path, STREAM, topic(MADE % (1, "pyFiles: ['a.py']")))

    (note,) = found.notes
    assert note == "source orders.made: spark.pyFiles is for a cluster, and left out here"


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([topic(DROP % "../../x")], "sources[0].files.path: a relative path must stay below"),
        ([topic(DROP % "'gs://b/x'")], "sources[0].files.path: 'gs://b/x'"),
        ([topic(POLLED)], "sources[0].postgres.credentialsSecretName: there is no Secret pg"),
        ([topic(POLLED), SECRET % ("pg", "{username: ann}")], "Secret pg lacks the key password"),
        ([topic(), OWN % ("filler", "order")], "topicRef.name: no IggyTopic of the name order"),
        ([topic(DROP % "in", sinks=LAKE % "drop")], "must have different names"),
        ([topic(sinks=LAKE % "drop"), OWN % ("orders.drop", "orders")],
         "metadata.name: orders.drop is also a sink, and names are those of consumer groups"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_told_at_its_place(
    tmp_path: Path, documents: list[str], words: str
) -> None:
    with pytest.raises(DocumentErrors) as caught:
        plan(tmp_path, STREAM, *documents)

    assert words in str(caught.value)
    assert len(caught.value.problems) == 1


def test_check_tells_what_the_job_would_refuse(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(text_of(STREAM, topic(DROP % "'s3a://INBOX/x'")))

    ended = run_program("check", "-f", path)

    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"spec.sources[0].files.path: 's3a://INBOX/x'" in ended.stderr


def until(running: LocalInstance, is_done: Callable[[Snapshot], bool]) -> Snapshot:
    """The test's own time limit ends this when it never comes."""
    while not is_done(snapshot := running.step(timeout_s=0.05)):
        pass
    return snapshot


@pytest.fixture
def fake_job(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_job(monkeypatch)


@pytest.mark.usefixtures("fake_job")
def test_a_source_is_counted_restarted_and_given_up(tmp_path: Path) -> None:
    restart = "restart: {maxRetries: 1, backoffSeconds: 1}"
    entry = made("1").replace("checkpoint:", f"{restart}, checkpoint:")
    with local_instance(tmp_path, text_of(STREAM, topic(entry))) as running:
        running.start()
        waiting = until(running, lambda now: now.sources[0].state == JobState.WAITING)
        failed = until(running, lambda now: now.sources[0].state == JobState.FAILED)

    before, after = waiting.sources[0], failed.source("orders.made")
    assert (before.messages, before.committed, before.behind) == (7, {"next": 7}, 3)
    assert (after.messages, after.committed, after.restarts) == (14, {"next": 14}, 1)
    assert after.reason == "start 1 failed (gave up after 1 restarts)"


@pytest.mark.usefixtures("fake_job")
def test_a_folder_to_read_is_made_and_a_change_starts_again(tmp_path: Path) -> None:
    dropped = (DROP % "in")[:-1] + ', spark: {conf: {fake.exits: "-"}}}'

    def changed(text: str) -> list[str]:
        running.take_notes()
        running.change(resources_of(tmp_path, text))
        return running.take_notes()

    with local_instance(tmp_path, text_of(STREAM, topic(made(), dropped))) as running:
        running.start()
        until(running, lambda now: {row.behind for row in now.sources} == {3})
        is_made = (running.folders.files / "in").is_dir()
        first = changed(text_of(STREAM, topic(made(rate=20), dropped)))
        until(running, lambda now: now.source("orders.made").committed == {"next": 14})
        second = changed(text_of(STREAM, topic(dropped)))
        third = changed(text_of(STREAM, topic(dropped), OWN % ("orders.made", "orders")))
        logs = [path.name for path in running.folders.logs.glob("source-*")]

    assert is_made
    assert first == ["source orders.made starts again with its new spec"]
    assert second == ["source orders.made stops: what it wrote and its checkpoint are kept"]
    assert third == ["source orders.made starts"]
    assert "source-default.orders.drop.log" in logs


def told(folder: Path, *arguments: str) -> str:
    done = run_program(*arguments, "--data", folder, environment=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def as_json(folder: Path, *arguments: str) -> Any:
    return json.loads(told(folder, *arguments, "--output", "json"))


@pytest.mark.usefixtures("fake_job")
def test_sources_are_listed_and_shown(tmp_path: Path) -> None:
    filler = OWN % ("filler", "orders")
    text = text_of(STREAM, topic(made()), filler.replace("type:", "suspend: true, type:"))
    with local_instance(tmp_path, text) as running:
        running.start()
        until(running, lambda now: now.source("orders.made").behind == 3)
        running.folders.snapshot_file.unlink(missing_ok=True)
        until(running, lambda now: running.folders.snapshot_file.exists())
        folder = running.folders.root
        table = told(folder, "source", "list")
        listed = as_json(folder, "source", "list")["sources"]
        shown = told(folder, "source", "status", "orders.made")
        whole = told(folder, "status")
        wrong = ("source", "status", "orders.mad", "--data", str(folder))
        unknown = run_program(*wrong, environment=ENVIRONMENT)

    lines = [line.split() for line in table.splitlines()]
    assert lines[0] == ["SOURCE", "TYPE", "STREAM", "TOPIC", "STATE", "SENT", "BEHIND"]
    assert lines[1] == ["orders.made", "Random", "shop", "orders", "Running", "7", "3"]
    assert lines[2] == ["filler", "Random", "shop", "orders", "Suspended", "0", "-"]
    assert [(row["topic"], row["source"]["name"]) for row in listed] == [
        ("orders", "orders.made"),
        ("orders", "filler"),
    ]
    assert listed[0]["source"]["committed"] == {"next": 7}
    assert 'position  {"next":7}' in shown
    assert "filler" not in shown
    assert "made (Random)" in whole
    assert unknown.stderr == (
        b"iggykube: no source of the name orders.mad: did you mean orders.made?\n"
    )


def test_the_line_of_up_has_sources(capsys: pytest.CaptureFixture[str]) -> None:
    row = SourceRow("orders.in", "Http", JobState.FAILED, restarts=3, reason="401", messages=1200)

    view.console().print(view.source("shop", "orders", row))

    shown = capsys.readouterr().out
    assert "Failed (3 restarts)" in shown
    assert "1,200" in shown
