"""The archive of an image, from what a builder puts into a folder."""

import hashlib
import json
import tarfile
from pathlib import Path

from e2e_cluster.images import archived
from image_builder import archives

NAME = "iggykube/broker:7.1"
TYPE = "application/vnd.oci.image.manifest.v1+json"


def pushed(folder: Path, *contents: bytes) -> bytes:
    """As `push NAME dir:FOLDER` leaves it; the manifest."""
    folder.mkdir()
    layers = []
    for content in contents:
        name = hashlib.sha256(content).hexdigest()
        (folder / name).write_bytes(content)
        layers.append({"digest": f"sha256:{name}", "size": len(content)})
    manifest = json.dumps({"schemaVersion": 2, "mediaType": TYPE, "layers": layers}).encode()
    (folder / "manifest.json").write_bytes(manifest)
    (folder / "version").write_text("Directory Transport Version: 1.1\n")
    return manifest


def test_an_archive_has_the_image_under_the_name_that_pods_use(tmp_path: Path) -> None:
    manifest = pushed(tmp_path / "folder", b"first", b"second")
    archive = tmp_path / "broker.tar"

    archives.write(archive, tmp_path / "folder", name=NAME)

    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert archived(archive) == {NAME: digest}


def test_every_blob_is_there_under_the_hash_of_its_bytes(tmp_path: Path) -> None:
    manifest = pushed(tmp_path / "folder", b"first", b"second")
    archive = tmp_path / "broker.tar"

    archives.write(archive, tmp_path / "folder", name=NAME)

    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
        blobs = {name: tar.extractfile(name) for name in names if name.startswith("blobs/")}
        found = {name: file.read() for name, file in blobs.items() if file}
    assert names == {"oci-layout", "index.json", *blobs}
    assert set(found.values()) == {manifest, b"first", b"second"}
    for name, content in found.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
