"""`sink redrive`: how the request comes to the job of a running instance, and what is counted.

The job is a fake one; `tests/spark/test_spark_redrive.py` shows what the real one does with it.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_program import clean_environment, run_program
from iggy_wire.batch import Message
from iggy_wire.options import Option, ValueKind, options_bytes
from iggy_wire.primitives import Partitioning
from iggykube import view
from iggykube.errors import LocalError
from iggykube.letters import GROUPS_MAX, counted
from iggykube.local import Folders, LocalInstance, SinkRow, redrives
from iggykube.local.redrives import Redrive, RedriveRow, RedriveState
from iggykube.local.snapshot import JobState
from iggykube.redrive import Request
from local_instances import client_of, local_instance, use_fake_job

SHOP = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec:
  streamRef: {name: shop}
  sinks:
  - name: lake
    type: Files
    files: {path: lake}
    checkpoint: {volume: {}}
    errors: {tolerance: Data, deadLetter: {topic: dead}}
    spark: {conf: {fake.exits: "%s"}}
  - name: plain
    type: Console
    spark: {conf: {fake.exits: "-"}}
  - name: rest
    type: Console
    suspend: true
    spark: {conf: {fake.exits: "-"}}
"""
ENVIRONMENT = clean_environment()
"""With the real parts; the instance gets the fake job."""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalInstance]:
    with running(tmp_path, monkeypatch) as instance:
        yield instance


@contextmanager
def running(
    folder: Path, monkeypatch: pytest.MonkeyPatch, exits: str = "-"
) -> Iterator[LocalInstance]:
    """An instance whose sinks have all begun."""
    use_fake_job(monkeypatch)
    with local_instance(folder, SHOP % exits) as instance:
        instance.start()
        while {row.state for row in instance.step(0.05).sinks} & {JobState.STARTING}:
            pass
        while not instance.folders.snapshot_file.exists():
            instance.step(0.05)
        yield instance


def redrive(folders: Folders, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    words = ("sink", "redrive", *arguments, "--data", folders.root)
    return run_program(*words, environment=ENVIRONMENT)


def command(instance: LocalInstance, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `sink redrive` while the instance goes on."""
    done = []

    def run() -> None:
        done.append(redrive(instance.folders, *arguments))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        instance.step(0.05)
    return done[0]


def job_of(instance: LocalInstance) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(instance.step().sink("orders.lake").job).read_bytes())
    return value


def test_the_job_starts_again_with_the_request_and_its_end_is_told(shop: LocalInstance) -> None:
    done = command(shop, "orders.lake", "--error-class", "SchemaMismatch", "--stage", "decode")

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"2 written, 1 failed again\n"
    block = job_of(shop)["redrive"]
    assert (block["errorClasses"], block["stages"]) == (["SchemaMismatch"], ["decode"])
    row = shop.step().sink("orders.lake")
    assert row.redrive is not None
    assert (row.redrive.request, row.redrive.state) == (block["request"], RedriveState.DONE)
    assert shop.notes[-1] == "sink orders.lake starts again to redrive its dead letters"
    assert redrives.asked(shop.folders) == {}
    assert row.rejected == 0


def test_times_reach_the_job_with_their_zone(shop: LocalInstance) -> None:
    times = ("--from", "2026-03-29T01:00:00", "--to", "2026-03-29T05:00:00+02:00")

    done = command(shop, "orders.lake", *times)

    assert (done.returncode, done.stderr) == (0, b"")
    block = job_of(shop)["redrive"]
    assert (block["from"], block["to"]) == (
        "2026-03-29T01:00:00+00:00",
        "2026-03-29T05:00:00+02:00",
    )


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (("--from", "monday"), b"must be a time such as 2026-03-29T01:00:00Z"),
        (("--from", "2026-03-29", "--to", "2026-03-28"), b"'--from': must be before --to"),
    ],
)
def test_times_that_choose_nothing_ask_for_nothing(
    shop: LocalInstance, times: tuple[str, ...], told: bytes
) -> None:
    done = command(shop, "orders.lake", *times)

    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr
    assert redrives.asked(shop.folders) == {}


def test_programs_get_an_object_and_each_request_is_another(shop: LocalInstance) -> None:
    first = json.loads(command(shop, "orders.lake", "--output", "json").stdout)
    second = json.loads(command(shop, "orders.lake", "--output", "json").stdout)

    request = first.pop("request")
    assert first == {"sink": "orders.lake", "state": "Done", "written": 2, "failed": 1}
    assert request != second["request"]


def test_without_waiting_the_request_is_left_for_the_instance(shop: LocalInstance) -> None:
    folders = shop.folders
    done = redrive(folders, "orders.lake", "--no-wait")

    assert (done.returncode, done.stderr) == (0, b"")
    assert list(redrives.asked(folders)) == ["orders.lake"]
    while redrives.asked(folders):
        shop.step(0.05)


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("orders.lak", "no sink of the name orders.lak: did you mean orders.lake?", 1),
        ("orders.plain", "sink orders.plain has no dead letters: there are letters with", 1),
        ("orders.rest", "sink orders.rest is suspended: set suspend to false first", 1),
    ],
)
def test_what_cannot_be_redriven_is_told(
    shop: LocalInstance, name: str, words: str, code: int
) -> None:
    done = command(shop, name)

    assert (done.returncode, done.stdout) == (code, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert redrives.asked(shop.folders) == {}


def test_a_stage_that_is_none_is_a_wrong_command(tmp_path: Path) -> None:
    done = run_program("sink", "redrive", "orders.lake", "--stage", "reed", folder=tmp_path)

    assert done.returncode == 2
    assert b"'decode', 'transform', 'write'" in done.stderr


def test_a_request_outlives_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = Folders.at(tmp_path / "data")
    with running(tmp_path, monkeypatch):
        pass
    redrives.ask(folders, "orders.lake", Redrive("a"))

    with running(tmp_path, monkeypatch) as instance:
        while redrives.asked(folders):
            instance.step(0.05)
        row = instance.step().sink("orders.lake")

    assert row.redrive is not None
    assert (row.redrive.request, row.redrive.written) == ("a", 2)


def test_a_sink_that_fails_for_good_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, monkeypatch, exits="- 2") as instance:
        monkeypatch.setattr("iggykube.local.sinks.SinkProcess._redriven", lambda _, row, __: row)
        request = Request(instance.folders, "orders.lake", Redrive("a"))
        request.ask()
        while instance.step(0.05).sink("orders.lake").state is not JobState.FAILED:
            pass
        instance.folders.snapshot_file.unlink()
        while not instance.folders.snapshot_file.exists():
            instance.step(0.05)

        with pytest.raises(LocalError, match=r"orders\.lake failed: start 1 failed; what is left"):
            request.wait()


def test_a_later_request_takes_the_place_of_an_earlier_one(shop: LocalInstance) -> None:
    earlier = Request(shop.folders, "orders.lake", Redrive("a"))
    earlier.ask()
    redrives.ask(shop.folders, "orders.lake", Redrive("b"))

    with pytest.raises(LocalError, match="a later request"):
        earlier.wait()


def test_a_request_that_was_done_unseen_is_done(
    shop: LocalInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggykube.redrive.FORGOTTEN_S", 0.2)
    request = Request(shop.folders, "orders.lake", Redrive("a"))
    request.ask()
    redrives.done(shop.folders, "orders.lake", "a")  # and the sink was started anew at once

    outcome = request.wait()

    assert (outcome.state, outcome.written) == (RedriveState.DONE, 0)


def test_an_instance_that_takes_nothing_is_told(
    shop: LocalInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggykube.redrive.TAKEN_S_MAX", 0.2)
    request = Request(shop.folders, "orders.lake", Redrive("a"))
    request.ask()

    with pytest.raises(LocalError, match="does not take the request"):
        request.wait()


def test_the_status_of_a_sink_has_its_last_request(capsys: pytest.CaptureFixture[str]) -> None:
    row = RedriveRow("a", RedriveState.RUNNING, written=1200, failed=3)
    sink = SinkRow("orders.lake", "Files", JobState.RUNNING, redrive=row)

    view.console().print(view.sink("shop", "orders", sink))

    assert "redrive   Running: 1,200 written, 3 failed again" in capsys.readouterr().out


def test_what_is_no_request_asks_for_nothing(tmp_path: Path) -> None:
    folders = Folders.at(tmp_path)
    redrives.ask(folders, "space/orders.lake", Redrive("a"))
    (folders.redrives / "other.json").write_text("{")

    assert redrives.asked(folders) == {"space/orders.lake": Redrive("a")}
    assert redrives.asked_of(folders, "other") is None
    redrives.done(folders, "space/orders.lake", "another")
    assert redrives.asked_of(folders, "space/orders.lake") == Redrive("a")
    redrives.done(folders, "space/orders.lake", "a")
    assert redrives.asked(folders) == {}


def letter(
    sink: str,
    stage: str,
    kind: str,
    *,
    attempt: int = 1,
    time_us: int = 0,
    of_us: int | None = None,
) -> Message:
    """`time_us` is its own time, `of_us` that of its message."""
    prefix = "iggy.dlq."
    block = [
        Option.of(f"{prefix}sink", sink),
        Option.of(f"{prefix}stage", stage),
        Option.of(f"{prefix}error_class", kind),
        Option.of(f"{prefix}attempt", attempt, ValueKind.UINT64),
    ]
    if of_us is not None:
        block.append(Option.of(f"{prefix}timestamp", of_us, ValueKind.UINT64))
    return Message(b"x", headers=options_bytes(tuple(block)), timestamp_us=time_us)


def test_letters_are_counted_by_kind() -> None:
    found = [
        letter("lake", "decode", "MalformedJson", time_us=3),
        letter("lake", "decode", "MalformedJson", time_us=1),
        letter("lake", "decode", "MalformedJson", attempt=2),
        letter("lake", "write", "Refused"),
        letter("other", "decode", "MalformedJson"),
        Message(b"no letter"),
        Message(b"no letter", headers=b"\xff"),
    ]

    groups = counted(found, "lake", Redrive("a", stages=("decode",)))

    assert [(g.sink, g.stage, g.attempt, g.letters, g.chosen) for g in groups] == [
        ("", "", 0, 2, False),
        ("lake", "decode", 1, 2, True),
        ("lake", "decode", 2, 1, True),
        ("lake", "write", 1, 1, False),
        ("other", "decode", 1, 1, False),
    ]
    assert (groups[1].first_us, groups[1].last_us) == (1, 3)


def test_letters_are_chosen_by_the_times_of_their_messages() -> None:
    kind = ("lake", "decode", "MalformedJson")
    # The letter of 00:00:01 was put back later.
    found = [letter(*kind, of_us=n * 1_000_000, time_us=9_000_000) for n in range(4)]
    wish = Redrive("a", since="1970-01-01T00:00:01Z", until="1970-01-01T00:00:03Z")

    left, chosen = counted(found, "lake", wish)

    assert (left.chosen, left.letters, left.times[1]) == (False, 2, "1970-01-01T00:00:03Z")
    assert (chosen.chosen, chosen.letters) == (True, 2)
    assert chosen.times == ("1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z")


def test_kinds_without_end_are_counted_together() -> None:
    found = [letter("lake", "write", f"E{n:05}") for n in range(GROUPS_MAX + 7)]

    groups = counted(found, "lake", Redrive("a"))

    assert len(groups) == GROUPS_MAX + 1
    assert (groups[0].sink, groups[0].letters) == ("", 7)


def test_a_dry_run_counts_what_an_earlier_redrive_has_not_read(shop: LocalInstance) -> None:
    with client_of(shop) as client:
        client.create_topic("shop", "dead", 1)
        where = Partitioning.partition(0)
        client.send("shop", "dead", where, [letter("orders.lake", "decode", "MalformedJson")] * 3)
        details = client.get_topic("shop", "dead")
    assert details is not None

    done = command(shop, "orders.lake", "--dry-run")

    assert (done.returncode, done.stderr) == (0, b"")
    head, row = done.stdout.decode().splitlines()
    words = " ".join(head.split())
    assert words == "SINK STAGE ERROR CLASS ATTEMPT LETTERS FIRST LAST REDRIVEN"
    assert row.split()[:5] == ["orders.lake", "decode", "MalformedJson", "1", "3"]
    assert row.split()[-1] == "yes"
    assert redrives.asked(shop.folders) == {}
    commit_two(shop, f"{details.topic.id}-{details.topic.created_at_us}")
    left = json.loads(command(shop, "orders.lake", "--dry-run", "--output", "json").stdout)
    assert [group["letters"] for group in left["letters"]] == [1]


def commit_two(instance: LocalInstance, incarnation: str) -> None:
    """What Spark leaves when a redrive has read two letters."""
    from iggy_spark.offsets import Offsets

    spark = Path(job_of(instance)["checkpoint"]) / incarnation / "spark"
    for name in ("commits", "offsets"):
        (spark / name).mkdir(parents=True)
    (spark / "commits" / "0").write_text("v1\n{}")
    ends = Offsets("shop/dead", incarnation, {0: 2})
    (spark / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(ends.to_json())}\n")
