"""An image archive under another name: what a newer release would be, without building one."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

INDEX = "index.json"


def retagged(archive: Path, name: str, folder: Path) -> Path:
    """A copy of an OCI archive whose one image is called `name`."""
    result = folder / f"{name.replace('/', '-').replace(':', '-')}.tar"
    with tarfile.open(archive, "r:") as old, tarfile.open(result, "w:") as new:
        for member in old:
            data = old.extractfile(member)
            if member.name == INDEX and data is not None:
                text = _renamed(data.read(), name)
                member.size, data = len(text), io.BytesIO(text)
            new.addfile(member, data)
    return result


def _renamed(index: bytes, name: str) -> bytes:
    content = json.loads(index)
    (manifest,) = content["manifests"]
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    return json.dumps(content).encode()
