"""Secrets in files become folders for the jobs of sinks, and are shown nowhere."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_operator.secret_documents import Secret
from iggykube.errors import LocalError
from iggykube.local import Folders, LocalInstance, load_resources
from iggykube.local.secrets import write_secrets
from local_instances import FREE, use_fake_job

VALUE = "hunter2"
STREAM = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
---
"""
TOPIC = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec:
  streamRef: {name: shop}
  partitions: 1
  sinks:
  - name: lake
    type: Files
    files: {path: "s3a://lake/orders", s3: {endpoint: "http://s3:1", credentialsSecretName: keys}}
    checkpoint: {volume: {}}
    spark: {conf: {fake.exits: "-"}}
"""
KEYS = """\
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {accessKeyId: mine, secretAccessKey: %s}
"""


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in tree(folder)}


def tree(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def folders_at(tmp_path: Path) -> Folders:
    folders = Folders.at(tmp_path / "data")
    folders.create()
    return folders


def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    folders = folders_at(tmp_path)

    write_secrets(folders, [Secret("shop", "pg", {"username": b"ann", "ca.crt": b"\x00\xff"})])

    assert files(folders.secrets) == {"shop/pg/username": b"ann", "shop/pg/ca.crt": b"\x00\xff"}
    for path in (folders.secrets, *folders.secrets.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_key_that_is_gone_is_removed_and_others_stay_until_nothing_runs(tmp_path: Path) -> None:
    folders = folders_at(tmp_path)
    old = [Secret("shop", "pg", {"a": b"1", "b": b"2"}), Secret("shop", "es", {"apiKey": b"k"})]
    write_secrets(folders, old)
    before = folders.secret("shop", "pg").joinpath("a").stat().st_ino

    new = [Secret("shop", "pg", {"a": b"1", "c": b"3"})]
    write_secrets(folders, new)
    assert files(folders.secrets) == {
        "shop/pg/a": b"1", "shop/pg/c": b"3", "shop/es/apiKey": b"k",
    }  # fmt: skip
    assert folders.secret("shop", "pg").joinpath("a").stat().st_ino == before

    write_secrets(folders, new, is_alone=True)
    assert files(folders.secrets) == {"shop/pg/a": b"1", "shop/pg/c": b"3"}


def test_a_place_that_does_not_allow_it_is_named(tmp_path: Path) -> None:
    folders = folders_at(tmp_path)
    (folders.secrets / "shop").write_text("in the way")

    with pytest.raises(LocalError, match="secrets/sinks"):
        write_secrets(folders, [Secret("shop", "pg", {"a": b"1"})])


def written(tmp_path: Path, *, keys: str | None) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(STREAM + TOPIC + ("" if keys is None else KEYS % keys))
    return path


@pytest.mark.timeout(120)
def test_a_changed_secret_reaches_its_folder_and_restarts_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_job(monkeypatch)
    data = tmp_path / "data"
    place = data / "secrets/sinks/default/keys/secretAccessKey"
    resources = load_resources(data, [written(tmp_path, keys=VALUE)])
    with LocalInstance(data, resources, ports=FREE) as running:
        running.start()
        pid = running._jobs.pids
        assert place.read_text() == VALUE

        running.change(load_resources(data, [written(tmp_path, keys="another")]))
        running.step(timeout_s=0.05)

        assert place.read_text() == "another"
        assert running._jobs.pids == pid
        assert running.notes[-1].startswith("Secrets are others now")
    elsewhere = {path: content for path, content in files(data).items()
                 if not path.startswith("secrets/")}  # fmt: skip
    assert [path for path, content in elsewhere.items() if VALUE.encode() in content] == []
    assert [path for path, content in elsewhere.items() if b"another" in content] == []


def check(path: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "iggykube", "check", "-f", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def test_check_notes_a_secret_that_stands_elsewhere(tmp_path: Path) -> None:
    ended = check(written(tmp_path, keys=None))

    assert ended.returncode == 0
    assert "there is no Secret keys" in ended.stderr
    assert "may exist elsewhere" in ended.stderr

    ended = check(written(tmp_path, keys=VALUE))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert VALUE not in ended.stdout


def test_check_refuses_what_the_job_would_refuse(tmp_path: Path) -> None:
    path = written(tmp_path, keys=VALUE)
    path.write_text(path.read_text().replace("s3a://lake", "s3a://LAKE"))

    ended = check(path)

    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"{path}:14:")
    assert "spec.sinks[0].files.path: 's3a://LAKE/orders'" in line


def test_check_takes_files_of_the_image_for_granted(tmp_path: Path) -> None:
    path = written(tmp_path, keys=VALUE)
    payload = "    payload: {format: Protobuf, schema: /nowhere/orders.pb shop.Order}\n"
    path.write_text(path.read_text().replace("    spark:", f"{payload}    spark:"))

    assert check(path).returncode == 0
    ended = check(path.with_name("nowhere.yaml"))
    assert ended.returncode == 2
