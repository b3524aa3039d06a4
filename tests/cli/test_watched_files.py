"""`up` follows its files: what a look notices, and what a change does to a running instance."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_program import run_program
from iggy_operator.documents import DocumentErrors
from iggykube.errors import LocalError
from iggykube.local import Snapshot
from iggykube.local.snapshot import JobState
from iggykube.local.watch import WATCH_S, Watch
from local_instances import client_of, local_instance, resources_of, use_fake_job

HEAD = "apiVersion: iggykube.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n"
STREAM = HEAD % ("IggyStream", "shop", "{}")
pytestmark = pytest.mark.timeout(120)


def topic(*sinks: str, name: str = "orders", more: str = "") -> str:
    spec = f"{{streamRef: {{name: shop}}, sinks: [{', '.join(sinks)}]{more}}}"
    return HEAD % ("IggyTopic", name, spec)


def sink(name: str, exits: str = "-", path: str = "lake") -> str:
    return (
        f"{{name: {name}, type: Files, files: {{path: {path}}}, checkpoint: {{volume: {{}}}}, "
        f'spark: {{conf: {{fake.exits: "{exits}"}}}}}}'
    )


def text_of(*documents: str) -> str:
    return "---\n".join(documents)


class Clock:
    """Looks are due whenever a test wants one."""

    def __init__(self, *files: Path) -> None:
        self.now_s = 0.0
        self.watch = Watch(files, self.now_s)

    def look(self) -> tuple[Path, ...]:
        self.now_s += WATCH_S
        return self.watch.changed(self.now_s)


def test_files_are_looked_at_once_a_second(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("1")
    watch = Watch([file], 0.0)
    file.write_text("22")

    assert watch.changed(WATCH_S - 0.01) == ()
    assert watch.changed(WATCH_S) == (file,)
    assert watch.changed(2 * WATCH_S) == ()


def test_a_file_is_another_by_time_size_or_inode(tmp_path: Path) -> None:
    file, other = tmp_path / "a.yaml", tmp_path / "b"
    file.write_text("1")
    clock = Clock(file)
    found = file.stat()

    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    by_time = clock.look()
    file.write_text("22")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    by_size = clock.look()
    other.write_text("33")
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    other.rename(file)
    by_inode = clock.look()

    assert (by_time, by_size, by_inode) == ((file,),) * 3


def test_an_editor_that_renames_is_no_loss(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("1")
    clock = Clock(file)

    file.rename(tmp_path / "a.yaml~")
    while_gone = clock.look()
    file.write_text("2")
    when_back = clock.look()
    file.unlink()
    gone_once, gone_twice, later = clock.look(), clock.look(), clock.look()

    assert (while_gone, when_back) == ((), (file,))
    assert (gone_once, gone_twice, later) == ((), (file,), ())


def test_folders_get_and_lose_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    clock = Clock(tmp_path)
    new = tmp_path / "new.yaml"

    new.write_text("1")
    (tmp_path / "notes.txt").write_text("still not ours")
    added = clock.look()
    new.unlink()
    removed = (clock.look(), clock.look())

    assert added == (new,)
    assert removed == ((), (new,))


class Running:
    """An instance, and the file that it was made from."""

    def __init__(self, tmp_path: Path, text: str) -> None:
        self.folder = tmp_path
        self.instance = local_instance(tmp_path, text)

    def change(self, text: str) -> list[str]:
        """Change the file; the notes of what that meant."""
        self.instance.take_notes()
        self.instance.change(resources_of(self.folder, text))
        return self.instance.take_notes()

    def until(self, is_done: Callable[[Snapshot], bool]) -> Snapshot:
        """The test's own time limit ends this when it never comes."""
        while not is_done(snapshot := self.instance.step(timeout_s=0.05)):
            pass
        return snapshot

    def until_runs(self, name: str) -> Snapshot:
        return self.until(lambda now: now.sink(name).state == JobState.RUNNING)


@contextmanager
def started(tmp_path: Path, text: str) -> Iterator[Running]:
    running = Running(tmp_path, text)
    with running.instance:
        running.instance.start()
        yield running


@pytest.fixture(autouse=True)
def fake_job(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_job(monkeypatch)


def pids(running: Running) -> list[int | None]:
    return [process.pid for process in running.instance._jobs]


def test_topics_come_and_grow_and_what_is_gone_stays_in_the_broker(tmp_path: Path) -> None:
    with started(tmp_path, text_of(STREAM, topic())) as running:
        more = ", partitions: 3, retention: {messageExpiry: 1d}"
        notes = running.change(text_of(STREAM, topic(more=more), topic(name="bills")))
        gone = running.change(text_of(STREAM, topic(name="bills")))
        same = running.change(text_of(STREAM, topic(name="bills")) + "# a remark\n")
        names = [row.name for row in running.instance.step().streams[0].topics]
        instance = running.instance
        with client_of(instance) as client:
            kept = client.get_topic("shop", "orders")

    assert sorted(notes) == [
        "added 2 partitions to topic orders",
        "changed message_expiry of topic orders",
        "created topic bills with 1 partitions",
    ]
    assert gone == ["topic shop/orders is in no file any more: it stays in the broker"]
    assert (same, names) == ([], ["bills"])
    assert kept is not None
    assert kept.topic.partitions_count == 3


def test_a_sink_that_changed_starts_again_and_the_others_run_on(tmp_path: Path) -> None:
    with started(tmp_path, text_of(STREAM, topic(sink("a"), sink("b")))) as running:
        running.until(lambda now: {row.state for row in now.sinks} == {JobState.RUNNING})
        before = pids(running)
        notes = running.change(text_of(STREAM, topic(sink("a"), sink("b", path="other"))))
        running.until(lambda now: pids(running)[1] not in (None, before[1]))
        running.until_runs("orders.b")
        after = pids(running)

    assert notes == ["sink orders.b starts again with its new spec"]
    assert after[0] == before[0]
    assert after[1] != before[1]
    # One at a time: the second start of the job has seen the end of the first.
    checkpoint = running.instance.folders.root / "claims/default/orders.b-checkpoint/starts"
    assert checkpoint.read_text() == "2"


def test_a_sink_that_is_gone_stops_and_its_checkpoint_is_kept(tmp_path: Path) -> None:
    with started(tmp_path, text_of(STREAM, topic(sink("a")))) as running:
        running.until_runs("orders.a")
        (pid,) = pids(running)
        notes = running.change(text_of(STREAM, topic()))
        running.until(lambda now: not running.instance._jobs.pids)
        checkpoint = running.instance.folders.root / "claims/default/orders.a-checkpoint"
        is_kept = checkpoint.is_dir()
        again = running.change(text_of(STREAM, topic(sink("a"))))
        running.until_runs("orders.a")

    assert pid is not None
    assert notes == ["sink orders.a stops: what it wrote and its checkpoint are kept"]
    assert is_kept
    assert again == ["sink orders.a starts"]


def test_a_sink_can_be_suspended_and_resumed(tmp_path: Path) -> None:
    suspended = sink("a").replace("{name: a", "{name: a, suspend: true")
    with started(tmp_path, text_of(STREAM, topic(sink("a")))) as running:
        running.until_runs("orders.a")
        running.change(text_of(STREAM, topic(suspended)))
        running.until(lambda now: not running.instance._jobs.pids)
        state = running.instance.step().sink("orders.a").state
        running.change(text_of(STREAM, topic(sink("a"))))
        running.until_runs("orders.a")

    assert state == JobState.SUSPENDED


def test_a_job_that_does_not_end_is_followed_by_nobody_until_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggykube.local.job_set.JOBS_STOP_S_MAX", 1.0)
    with started(tmp_path, text_of(STREAM, topic(sink("a", exits="! -")))) as running:
        running.until_runs("orders.a")
        before = pids(running)
        running.change(text_of(STREAM, topic(sink("a", exits="! -", path="other"))))
        first_look = pids(running)
        running.until_runs("orders.a")

    assert first_look == [None]
    assert pids(running) != before


def test_what_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    with started(tmp_path, text_of(STREAM, topic(sink("a")))) as running:
        running.until_runs("orders.a")
        before = pids(running)
        for text in (
            text_of(STREAM, "kind: ["),
            text_of(topic()),
            text_of(STREAM, topic(sink("a", path="../../x"))),
        ):
            with pytest.raises(DocumentErrors):
                running.change(text)
        after = pids(running)
        instance = running.instance
        with client_of(instance) as client:
            client.create_topic("shop", "bills", 1)
        foreign = topic(name="bills", more=", adoptionPolicy: FailIfExists")
        with pytest.raises(LocalError, match="bills"):
            running.change(text_of(STREAM, topic(), foreign))
        last = pids(running)

    assert (after, last) == (before, before)


def test_settings_of_the_broker_wait_for_the_next_start(tmp_path: Path) -> None:
    broker = HEAD % ("IggyBroker", "iggy", "{config: {system.segment.size: 1 MiB}}")
    with started(tmp_path, text_of(STREAM, topic())) as running:
        notes = running.change(text_of(STREAM, topic(), broker))

    assert notes == [
        "settings of the broker are others now: they count from the next `iggykube up` on"
    ]


def start_up(tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iggykube", "up", "-f", "shop.yaml", "--port", "0"]
    return subprocess.Popen(
        [*command, "--monitoring-port", "0", *more],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """The next line that holds these words. The test's own time limit ends this."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if words in line:
            return line
    raise AssertionError(f"the program ended and never said {words!r}")


def test_up_says_each_change_in_a_line_and_goes_on_after_a_broken_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(text_of(STREAM, topic()))
    with start_up(tmp_path) as up:
        line_with(up, "created topic orders")
        line_with(up, "orders 0 messages")
        file.write_text(text_of(STREAM, topic(more=", partitions: 2"), "kind: ["))
        broken = line_with(up, "not applied")
        (tmp_path / "new").write_text(text_of(STREAM, topic(more=", partitions: 2")))
        shutil.move(tmp_path / "new", file)
        fixed = line_with(up, "partitions")
        file.write_text(text_of(STREAM, topic(more=", partitions: 2")) + "# done\n")
        nothing = line_with(up, "shop.yaml")
        up.send_signal(signal.SIGINT)
        up.communicate()

    assert up.returncode == 0
    assert broken.startswith("not applied, all goes on as before: shop.yaml:12:1: ")
    assert "not YAML" in broken
    assert fixed == "added 1 partitions to topic orders\n"
    assert nothing == "shop.yaml: changed, and there is nothing to do\n"


def test_programs_get_changes_as_notes(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(text_of(STREAM, topic()))
    with start_up(tmp_path, "--output", "json") as up:
        first = json.loads(line_with(up, "orders"))
        file.write_text(text_of(STREAM, topic(more=", partitions: 2")))
        second = json.loads(line_with(up, "added"))
        up.send_signal(signal.SIGINT)
        rest, _ = up.communicate()

    assert first["notes"] == ["created stream shop", "created topic orders with 1 partitions"]
    assert second["notes"][2:] == ["added 1 partitions to topic orders"]
    assert [json.loads(line)["pid"] for line in rest.splitlines()] == [
        first["pid"] for _ in rest.splitlines()
    ]


def test_up_without_watch_looks_at_nothing(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(text_of(STREAM, topic()))
    with start_up(tmp_path, "--no-watch") as up:
        line_with(up, "orders 0 messages")
        file.write_text(text_of(STREAM, topic(more=", partitions: 2")))
        sent = run_program(
            "produce", "shop", "orders", folder=tmp_path, stdin=b"a message\n"
        )  # no login: that of the local instance
        line_with(up, "orders 1 messages")  # seconds later than a look would have been
        up.send_signal(signal.SIGINT)
        rest, _ = up.communicate()

    assert (sent.returncode, sent.stdout) == (0, b"1 message acknowledged\n")
    assert "partitions" not in rest
