"""The version of the data directory's format, in a file of its own that people can read."""

from iggy_broker.storage.disk import Disk

FORMAT_VERSION = 1  # raise it when an older broker could misread what a newer one wrote
FORMAT_FILE = "format_version"

_BYTES_MAX = 64


class FormatVersionError(Exception):
    """The data directory is not for this broker. The text says what to do."""


def check_format(disk: Disk, root: str) -> None:
    """Accept the data directory `root`, marking a new one. FormatVersionError if it is newer."""
    path = f"{root}/{FORMAT_FILE}"
    try:
        text = disk.read_file(path, bytes_max=_BYTES_MAX).decode("ascii", errors="replace").strip()
    except FileNotFoundError:
        disk.write_file(path, f"{FORMAT_VERSION}\n".encode(), sync=True)
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
