"""`iggy-broker restore` from an archive that a real broker has made, and what may be in its way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from archive_content import is_archived
from broker_process import BrokerProcess, wait_for_exit
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.state_objects import StoredOffsets, encode
from iggy_broker.clock import SystemClock
from iggy_broker.metadata import changes
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import VERSION, encode_snapshot
from iggy_broker.restore.command import Wishes
from iggy_broker.restore.command import restore as restore_here
from iggy_wire.archive import METADATA_KEY, OWNER_KEY, log_key, offsets_key
from kept_directories import MESSAGES, check
from metadata_cases import accepted_entries, replayed
from restored import events, restore, run_restore, summary
from stored import logs, partition_folder, read_all, send
from waiting import wait_until

WITHIN_S = 60.0
FOLDER = "streams/0/topics/0/partitions/0"


@pytest.mark.parametrize("mode", [[], ["--full"]], ids=["lazy", "full"])
def test_all_is_there_again_and_the_broker_goes_on(broker: BrokerProcess, mode: list[str]) -> None:
    lines = restore(broker, *mode)
    assert [line["next_offset"] for line in lines[:-1]] == [MESSAGES, 0, 1, 0, 0]
    done = summary(lines)
    assert (done["has_metadata"], done["is_served"]) == (True, True)
    assert (done["problems"], done["cut_offsets"], done["users"]) == (0, 0, 2)
    kept = json.loads((broker.data / "restore.json").read_text())
    assert kept["partitions"] == lines[:-1]

    broker.start()
    assert bool(logs(partition_folder(broker))[0].stat().st_size) == bool(mode)
    check(broker, VERSION)
    with broker.client() as client:
        for number in range(2):
            assert send(client, "orders", "new", f"more {number}".encode()) == MESSAGES + number
    assert broker.stop() == 0, broker.text()
    broker.start()
    check(broker, VERSION, appended=2)
    assert broker.stop() == 0, broker.text()


def test_a_folder_is_named_and_the_settings_do_not_name_it(
    broker: BrokerProcess, archive: Path
) -> None:
    broker.settings = {}
    shutil.rmtree(broker.data, ignore_errors=True)
    done = run_restore(broker, "--from", str(archive))
    assert done.returncode == 0, done.stderr
    assert "restore_elsewhere" in events(done)
    lines = restore(broker, "--from", str(archive), "--full", "--report", str(archive / "report"))
    assert summary(lines)["is_served"] is True
    assert json.loads((archive / "report").read_text())["partitions"] == lines[:-1]
    assert not (broker.data / "archive_owner.json").exists()
    broker.start()
    check(broker, VERSION)


def test_a_directory_with_data_is_left_alone(broker: BrokerProcess) -> None:
    restore(broker)
    before = (broker.data / "restore.json").read_bytes()
    done = run_restore(broker)
    assert (done.returncode, events(done)) == (1, ["restore_failed"])
    done = run_restore(broker, "--if-empty")
    assert (done.returncode, events(done)) == (0, ["restore_not_needed"])
    assert (broker.data / "restore.json").read_bytes() == before

    shutil.rmtree(broker.data)
    broker.data.mkdir()
    (broker.data / "notes.txt").write_text("mine")
    for arguments in ([], ["--if-empty"]):
        done = run_restore(broker, *arguments)
        assert done.returncode == 1
        assert "notes.txt" in done.stderr


def test_an_archive_with_nothing_in_it_is_an_error_unless_that_is_meant(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    nothing = ["--from", str(tmp_path / "nothing")]
    done = run_restore(broker, *nothing)
    assert (done.returncode, events(done)) == (1, ["restore_failed"])
    assert "--allow-new" in done.stderr
    assert run_restore(broker, *nothing, "--allow-new").returncode == 0
    assert (broker.data / "format_version").exists()


def test_an_archive_that_is_named_wrongly_is_an_error(broker: BrokerProcess) -> None:
    for source, told in (("http://x", "s3://bucket/prefix"), ("s3:///x", "name the bucket")):
        done = run_restore(broker, "--from", source)
        assert done.returncode == 2
        assert told in done.stderr
    broker.settings = {}
    assert "--from" in run_restore(broker).stderr


class Interrupted(Exception):
    """A kill."""


def test_a_restore_that_was_interrupted_stops_a_start_and_begins_anew(
    broker: BrokerProcess, archive: Path
) -> None:
    broker.data.mkdir()
    store, wishes = FolderStore(archive), Wishes(str(archive), is_ours=True, is_full=True)
    read = store.read

    def until_a_log(key: str, size_bytes: int, position: int) -> bytes:
        if key.endswith(".log") and position == 0 and not key.endswith(f"{0:020d}.log"):
            raise Interrupted
        return read(key, size_bytes, position)

    store.read = until_a_log  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        restore_here(str(broker.data), store, wishes, clock=SystemClock())
    assert list(broker.data.glob("streams/*/topics/*/partitions/*/life"))
    assert wait_for_exit(broker.launch()) == 1
    assert "iggy-broker restore again" in str(broker.records()[-1]["message"])
    broker.log.unlink()

    assert run_restore(broker, "--full", "--if-empty").returncode == 0
    broker.start()
    check(broker, VERSION)


# -- what the archive lacks --------------------------------------------------------------------


def earlier_metadata(archive: Path) -> None:
    """Those of a time when there were no topics."""
    made = [changes.CreateStream(f"stream-{number}") for number in range(5)]
    state = replayed(accepted_entries(made, State()), State())
    (archive / METADATA_KEY).write_bytes(encode_snapshot(state))


def test_topics_that_are_younger_than_the_metadata_are_told_and_adopted(
    broker: BrokerProcess, archive: Path
) -> None:
    earlier_metadata(archive)
    done = summary(restore(broker))
    assert done["partitions"] == 0
    left_out = done["left_out"]
    assert isinstance(left_out, list)
    names = {f"{one['stream']}/{one['topic']}" for one in left_out}
    assert {"orders/new", "orders/purged", "stream-1/young"} <= names

    lines = restore(broker, "--recreate")
    assert summary(lines)["left_out_count"] == 0
    assert all(line["is_adopted"] for line in lines[:-1] if line["folder"])
    broker.start()
    with broker.client() as client:
        assert len(read_all(client, "stream-0", "new")) == MESSAGES
        assert read_all(client, "stream-0", "purged") == [b"after"]
        assert read_all(client, "stream-1", "young") == [b"youth"]
        client.create_topic("stream-1", "next", 1)
        send(client, "stream-1", "next", b"1")


def test_without_metadata_names_and_messages_come_from_the_manifests(
    broker: BrokerProcess, archive: Path
) -> None:
    (archive / METADATA_KEY).unlink()
    lines = restore(broker)
    done = summary(lines)
    assert (done["has_metadata"], done["users"]) == (False, 0)
    broker.start()
    with broker.client() as client:
        assert len(read_all(client, "orders", "new")) == MESSAGES
        assert read_all(client, "orders", "purged") == [b"after"]


def test_metadata_that_are_damaged_stop_it_unless_they_are_to_be_made_anew(
    broker: BrokerProcess, archive: Path
) -> None:
    path = archive / METADATA_KEY
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = run_restore(broker)
    assert done.returncode == 1
    assert "--recreate" in done.stderr
    assert list(broker.data.iterdir()) == [broker.data / "lock"]
    assert summary(restore(broker, "--recreate"))["has_metadata"] is False


def test_stored_offsets_that_are_ahead_of_the_data_are_cut_and_told(
    broker: BrokerProcess, archive: Path
) -> None:
    path = archive / offsets_key(FOLDER)
    found = StoredOffsets.decode(path.read_bytes(), str(path))
    ahead = dict.fromkeys(found.consumers, MESSAGES + 5)
    changed = {"consumers": ahead, "groups": {**found.groups, 99: 3}}
    path.write_bytes(encode(StoredOffsets(**{**as_fields(found), **changed})))
    lines = restore(broker)
    assert lines[0]["cut_offsets"] == [
        {"kind": "consumer", "id": 7, "offset": MESSAGES + 5, "now": MESSAGES - 1},
        {"kind": "group", "id": 99, "offset": 3, "now": None},
    ]
    broker.start()
    with broker.client() as client:
        stored = client.get_offset(7, "orders", "new", 0)
        assert stored is not None
        assert stored.stored_offset == MESSAGES - 1
    assert not [one for one in broker.records() if one["event"] == "offset_drawn_back"]


def as_fields(offsets: StoredOffsets) -> dict[str, object]:
    return {name: getattr(offsets, name) for name in offsets.__struct_fields__}


def test_what_is_behind_a_damaged_segment_is_fetched_and_the_rest_told(
    broker: BrokerProcess, archive: Path
) -> None:
    first = sorted(int(path.stem) for path in (archive / FOLDER).glob("*.log"))[1]
    path = archive / log_key(FOLDER, first)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    lines = restore(broker, "--full")
    local = lines[0]["local_offset"]
    assert isinstance(local, int)
    assert first < local < MESSAGES
    assert "is damaged" in str(lines[0]["problems"])
    broker.start()
    with broker.client() as client:
        assert len(read_all(client, "orders", "new", first=local)) == MESSAGES - local
        assert send(client, "orders", "new", b"more") == MESSAGES

    path.unlink()
    broker.kill()
    lines = restore(broker, "--check")
    assert lines[0]["gaps"] == [[first, local]]


# -- the next owner ----------------------------------------------------------------------------


def test_a_broker_whose_archive_was_taken_over_stops_copying(
    broker: BrokerProcess, archive: Path, tmp_path: Path
) -> None:
    restore(broker)
    broker.start()
    standby = BrokerProcess(tmp_path / "standby", settings=broker.settings)
    standby.folder.mkdir()
    try:
        store = FolderStore(archive)
        with broker.client() as client:
            assert send(client, "orders", "new", b"before") == MESSAGES
        wait_until(lambda: is_archived(store, MESSAGES + 1, FOLDER), "copied", WITHIN_S)
        done = run_restore(standby, "--take-over")
        assert done.returncode == 0, done.stderr
        wait_until(
            lambda: any(one["event"] == "archive_taken" for one in broker.records()),
            "the old one to notice",
            WITHIN_S,
        )
        with broker.client() as client:
            send(client, "orders", "new", b"of the old one, which nobody copies")
        standby.start()
        with standby.client() as client:
            assert send(client, "orders", "new", b"of the new one") == MESSAGES + 1
            assert read_all(client, "orders", "new", first=MESSAGES)[0] == b"before"
        wait_until(lambda: is_archived(store, MESSAGES + 2, FOLDER), "copied", WITHIN_S)
        assert json.loads((archive / OWNER_KEY).read_text())["generation"] == 3
        assert broker.is_running
        assert broker.stop() == 0, "it stops as ever"
        assert standby.stop() == 0
    finally:
        standby.end()
