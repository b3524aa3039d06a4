"""Images without a registry: small ones are packed here, and archives are handed to containerd."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import places
from .places import Places
from .trouble import ClusterError, run

Document = dict[str, Any]

_NAME = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
BUSYBOX = Path("/bin/busybox")
BUSYBOX_TOOLS = (
    "sh",
    "cat",
    "echo",
    "id",
    "ls",
    "mkdir",
    "nc",
    "nslookup",
    "sleep",
    "stat",
    "wget",
    "httpd",
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """One image of an archive: the name that pods use, and whether it was there already."""

    name: str
    was_there: bool


def in_full(name: str, host: str) -> str:
    """As the kubelet asks for it: at `host` where it names none itself (`iggykube/broker:1`)."""
    first = name.partition("/")[0]
    return name if "." in first or ":" in first or first == "localhost" else f"{host}/{name}"


def archived(archive: Path) -> dict[str, str]:
    """The images of an OCI archive: name → digest of its manifest."""
    try:
        with tarfile.open(archive, "r:") as tar:
            member = tar.extractfile("index.json")
            index: Document = json.loads(member.read()) if member else {}
    except (OSError, tarfile.TarError, KeyError) as error:
        raise ClusterError(
            f"{archive} is not an OCI archive ({error}); make one with: "
            f"buildah push NAME oci-archive:{archive}:NAME"
        ) from None
    found = {}
    for manifest in index.get("manifests", []):
        notes = manifest.get("annotations", {})
        name = notes.get(_FULL_NAME) or notes.get(_NAME)
        if "/" not in (name or ""):
            raise ClusterError(
                f"an image in {archive} has no name like FOLDER/NAME:TAG; write it there: "
                f"buildah push NAME oci-archive:{archive}:NAME"
            )
        found[name] = manifest["digest"]
    return found


def present() -> dict[str, str]:
    """What containerd has: full name → digest."""
    lines = _ctr("images", "list").splitlines()[1:]
    rows = [line.split() for line in lines]
    return {row[0]: row[2] for row in rows}


def load(archives: Iterable[Path]) -> list[Loaded]:
    """Hand archives to containerd; what it has already is not sent again."""
    loaded = []
    host = _default_host()
    for archive in archives:
        wanted, there = archived(archive), present()
        was_there = all(there.get(in_full(name, host)) == at for name, at in wanted.items())
        if not was_there:
            _ctr("images", "import", str(archive))
            _name_in_full(wanted, host)
        loaded += [Loaded(name, was_there) for name in wanted]
    return loaded


def _name_in_full(wanted: Mapping[str, str], host: str) -> None:
    """An import keeps the archive's own name, which may be the short one."""
    there = present()
    for name, digest in wanted.items():
        if there.get(in_full(name, host)) != digest:
            _ctr("images", "tag", "--force", name, in_full(name, host))


def _default_host() -> str:
    """Where containerd and the kubelet look for names without a host.

    Asked of containerd itself, which writes the names of archives of Docker's kind in full.
    """
    name = "iggykube/e2e-name:1"
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "name.tar")
        layer = _tar({"nothing": b""})
        config = json.dumps(_config(layer, command=[])).encode()
        listed = [{"Config": "config", "RepoTags": [name], "Layers": ["layer"]}]
        contents = {"config": config, "layer": layer, "manifest.json": json.dumps(listed).encode()}
        archive.write_bytes(_tar(contents))
        _ctr("images", "import", str(archive))
    (full,) = [one for one in present() if one.endswith(f"/{name}")]
    _ctr("images", "remove", full)
    return full.removesuffix(f"/{name}")


def _ctr(*words: str) -> str:
    command = ["ctr", f"--address={places.CONTAINERD_SOCKET}", "--namespace=k8s.io", *words]
    return run(command, timeout_s=600)


def ensure_own(where: Places) -> list[Path]:
    """The two images that the cluster brings itself: what holds pods, and a shell for tests."""
    pause = where.images / "e2e-pause.tar"
    busybox = where.images / "e2e-busybox.tar"
    where.images.mkdir(parents=True, exist_ok=True)
    if not _holds(pause, places.PAUSE_IMAGE):
        program = where.program("pause", "1").read_bytes()
        pack(pause, places.PAUSE_IMAGE, {"pause": program}, command=["/pause"])
    if not _holds(busybox, places.BUSYBOX_IMAGE):
        files: dict[str, bytes | str] = {"bin/busybox": BUSYBOX.read_bytes()}
        files |= {f"bin/{tool}": "/bin/busybox" for tool in BUSYBOX_TOOLS}
        pack(busybox, places.BUSYBOX_IMAGE, files, command=["/bin/sh"])
    return [pause, busybox]


def _holds(archive: Path, name: str) -> bool:
    return archive.exists() and name in archived(archive)


def pack(archive: Path, name: str, files: Mapping[str, bytes | str], *, command: list[str]) -> None:
    """One image of one layer. A file is a program's bytes, a link the text where it leads."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes) -> Document:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    layer = _tar({**files, "tmp/": b""})
    config = _config(layer, command=command)
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", **blob(json.dumps(config).encode())},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar", **blob(layer)}],
    }
    listed = {
        "mediaType": f"{kind}.manifest.v1+json",
        "annotations": {_NAME: name, _FULL_NAME: name},
        **blob(json.dumps(manifest).encode()),
    }
    contents: dict[str, bytes | str] = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode(),
    }
    contents |= {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
    unfinished = archive.with_suffix(".unfinished")
    unfinished.write_bytes(_tar(contents))
    unfinished.replace(archive)


def _config(layer: bytes, *, command: list[str]) -> Document:
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"], "User": "65534:65534"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }


def _tar(files: Mapping[str, bytes | str]) -> bytes:
    """A tape archive: bytes become programs, texts links, and a name that ends in `/` a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            elif name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
