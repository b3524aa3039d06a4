"""The test cluster's images: names as containerd writes them, archives as it reads them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from e2e_cluster.images import archived, in_full, pack
from e2e_cluster.trouble import ClusterError

NAME = "iggykube/tool:1"


def packed(folder: Path) -> Path:
    archive = folder / "tool.tar"
    files: dict[str, bytes | str] = {"bin/tool": b"program", "bin/other": "/bin/tool"}
    pack(archive, NAME, files, command=["/bin/tool"])
    return archive


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iggykube/broker:0.1.0", "images.example/iggykube/broker:0.1.0"),
        ("localhost/broker:1", "localhost/broker:1"),
        ("registry.local:5000/broker:1", "registry.local:5000/broker:1"),
    ],
)
def test_names_are_written_in_full(name: str, expected: str) -> None:
    assert in_full(name, "images.example") == expected


def test_a_packed_image_is_found_by_its_name(tmp_path: Path) -> None:
    archive = packed(tmp_path)

    found = archived(archive)

    with tarfile.open(archive) as tar:
        digest = found[NAME].removeprefix("sha256:")
        blob = tar.extractfile(f"blobs/sha256/{digest}")
        assert blob is not None
        assert hashlib.sha256(blob.read()).hexdigest() == digest


def test_an_image_has_its_programs_and_links(tmp_path: Path) -> None:
    archive = packed(tmp_path)

    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile(_blob(archived(archive)[NAME])))  # type: ignore[arg-type]
        layer = tar.extractfile(_blob(manifest["layers"][0]["digest"]))
        with tarfile.open(fileobj=layer) as files:
            program = files.extractfile("bin/tool")
            assert program is not None
            assert program.read() == b"program"
            assert files.getmember("bin/other").linkname == "/bin/tool"


def test_the_same_files_make_the_same_image(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()

    assert archived(packed(tmp_path)) == archived(packed(tmp_path / "again"))


def test_what_is_no_archive_is_refused_with_the_way_to_make_one(tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    other.write_text("not an archive")

    with pytest.raises(ClusterError, match=r"not an OCI archive.*buildah push NAME oci-archive:"):
        archived(other)


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
