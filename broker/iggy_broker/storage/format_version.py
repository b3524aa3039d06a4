"""What makes a folder a data directory: a file with the version of its format, for people, too."""

from iggy_broker.storage.disk import Disk
from iggy_broker.storage.lock import LOCK_FILE

FORMAT_VERSION = 2  # raise it when an older broker could misread what a newer one wrote
PLAIN_FORMAT = 1  # of a directory without any encrypted batch
ENCRYPTED_FORMAT = 2  # may have some: an older broker would cut them off as damage
FORMAT_FILE = "format_version"

UNFINISHED_RESTORE = "restore.unfinished"  # is there while a restore makes the directory

_BYTES_MAX = 64
NOT_OURS = (LOCK_FILE, "lost+found")  # the lock is held, the other is the file system's own


class FormatVersionError(Exception):
    """The data directory is not for this broker. The text says what to do."""


def check_format(disk: Disk, root: str, *, least: int = PLAIN_FORMAT) -> None:
    """Accept the data directory `root`, marking a new one, and an older one as of `least`.

    FormatVersionError if it is newer, or a restore of it was not finished.
    """
    if disk.exists(f"{root}/{UNFINISHED_RESTORE}"):
        raise FormatVersionError(
            f"{root} is being restored, or a restore was interrupted: run iggy-broker restore again"
        )
    path = f"{root}/{FORMAT_FILE}"
    try:
        text = disk.read_file(path, bytes_max=_BYTES_MAX).decode("ascii", errors="replace").strip()
    except FileNotFoundError:
        mark_format(disk, root, least)
        return
    if not text.isdecimal() or int(text) < 1:
        raise FormatVersionError(
            f"{path} holds {text!r} where a version number belongs: restore the file, or move the"
            " data directory away"
        )
    if int(text) > FORMAT_VERSION:
        raise FormatVersionError(
            f"{root} was written by a newer broker (format {text}, this one knows up to"
            f" {FORMAT_VERSION}): start that version again, or another data directory"
        )
    if int(text) < least:
        mark_format(disk, root, least)


def mark_format(disk: Disk, root: str, version: int) -> None:
    """Make the folder `root` a data directory of that format."""
    disk.write_file(f"{root}/{FORMAT_FILE}", f"{version}\n".encode(), sync=True)


def empty_directory(disk: Disk, root: str) -> None:
    """Remove all that is in the data directory `root`, which is locked.

    FormatVersionError if it does not look like one: then nothing is removed.
    """
    names = [name for name in disk.list_folder(root) if name not in NOT_OURS]
    if names and FORMAT_FILE not in names:
        raise FormatVersionError(
            f"{root} has files but no {FORMAT_FILE}, so it is no data directory and is not emptied:"
            " name another system.path, or start without --fresh"
        )
    for name in sorted(names, key=lambda name: name == FORMAT_FILE):  # last: it says what this is
        path = f"{root}/{name}"
        if disk.is_folder(path):
            disk.remove_tree(path)
        else:
            disk.remove(path)
    disk.sync_folder(root)
