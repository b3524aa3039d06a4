"""One image as one file: an OCI archive, as `ctr images import`, `kind load` and skopeo read it.

Made here of a folder, because buildah packs layers when it writes such archives, whatever it is
told: that took longer than all the rest of a build, and the way to the cluster is short.
"""

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any, Final

_LAYOUT: Final = {"imageLayoutVersion": "1.0.0"}
_NAME: Final = "org.opencontainers.image.ref.name"
_BLOB: Final = re.compile("[0-9a-f]{64}")


def write(archive: Path, folder: Path, *, name: str) -> None:
    """Pack what `push NAME dir:FOLDER` wrote: a manifest, and files named after their SHA-256."""
    manifest = (folder / "manifest.json").read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    listed = {
        "mediaType": json.loads(manifest)["mediaType"],
        "digest": f"sha256:{digest}",
        "size": len(manifest),
        "annotations": {_NAME: name},
    }
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json(_LAYOUT))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [listed]}))
        _add(tar, f"blobs/sha256/{digest}", manifest)
        for blob in sorted(folder.iterdir()):
            if _BLOB.fullmatch(blob.name):
                tar.add(blob, f"blobs/sha256/{blob.name}")


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
