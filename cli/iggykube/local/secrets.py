"""Secrets of the files as folders, as Kubernetes would mount them: one file a key."""

import shutil
from collections.abc import Iterable

from iggy_operator.secret_documents import Secret
from iggykube.errors import LocalError
from iggykube.local.folders import Folders, write_private

_FOLDER_MODE = 0o700


def write_secrets(folders: Folders, secrets: Iterable[Secret], *, is_alone: bool = False) -> None:
    """Write what has changed. Jobs that run read it at their next connection.

    `is_alone`: no job runs, so that what nobody names any more can go.

    Raises LocalError if the place does not allow it.
    """
    try:
        if is_alone:
            shutil.rmtree(folders.secrets)
            folders.secrets.mkdir(mode=_FOLDER_MODE)
        for secret in secrets:
            _write(folders, secret)
    except OSError as error:
        raise LocalError(f"{folders.secrets}: {error.strerror}") from error


def _write(folders: Folders, secret: Secret) -> None:
    folder = folders.secret(secret.namespace, secret.name)
    for part in (folder.parent, folder):
        part.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    for key, value in sorted(secret.values.items()):
        path = folder / key
        if not path.exists() or path.read_bytes() != value:
            write_private(path, value)
    for path in folder.iterdir():
        if path.name not in secret.values:
            path.unlink()
