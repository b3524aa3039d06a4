"""The local instance that somebody else's `iggykube up` runs: found by its data directory."""

from pathlib import Path

import msgspec

from iggy_client.tls import Tls
from iggykube.errors import LocalError
from iggykube.local.folders import ROOT_USERNAME, Folders
from iggykube.local.snapshot import Snapshot
from iggykube.local.snapshot import decode as decode_snapshot


def local_instance(data: Path) -> tuple[Snapshot, tuple[str, str]]:
    """The instance that runs in a data directory; its root user's name and password.

    Raises LocalError if none runs.
    """
    folders = Folders.at(data)
    snapshot = read_snapshot(folders)
    return snapshot, (ROOT_USERNAME, folders.password())


def tls_of(snapshot: Snapshot) -> Tls | None:
    """How its broker is spoken to; None: in plain text. Raises LocalError."""
    if snapshot.tls is None:
        return None
    pem, file = "", snapshot.tls.ca_file
    if file:
        try:
            pem = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise LocalError(f"{file}: {error.strerror}") from error
    return Tls(pem, snapshot.tls.server_name)


def read_snapshot(folders: Folders) -> Snapshot:
    """How the instance stands. Raises LocalError if none runs."""
    if folders.owner_pid() is None:
        fix = "start one with `iggykube up -f FILE`, or name its folder with --data"
        raise LocalError(f"no instance runs in {folders.root}: {fix}")
    try:
        return decode_snapshot(folders.snapshot_file.read_bytes())
    except FileNotFoundError:
        raise LocalError(f"the instance in {folders.root} is starting: try again") from None
    except msgspec.MsgspecError:
        fix = "use the version of iggykube that started it"
        raise LocalError(f"the instance in {folders.root} is of another version: {fix}") from None
