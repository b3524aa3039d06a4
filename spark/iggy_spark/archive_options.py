"""Where the archive of a read lies, and what it is used for, as the options say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iggy_spark.errors import OptionError
from iggy_spark.option_values import fail
from iggy_wire.archive import Life

MODES: Final = ("auto", "only", "off")
OF_BUCKETS: Final = (
    "archive.endpoint", "archive.region", "archive.pathStyle", "archive.credentialsPath"
)  # fmt: skip
OF_ALL: Final = ("archive.keysPath", "archive.incarnation")

_LIFE: Final = re.compile(r"(?P<incarnation>[0-9]{1,18})(?:-(?P<purges>[0-9]{1,18}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """An archive that is read. Empty texts: as Amazon's libraries find out themselves."""

    path: str  # a folder, or s3://bucket/prefix
    is_all: bool = False  # whether there is no broker to be asked
    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    credentials_path: str = ""
    keys_path: str = ""  # of keys that the broker has encrypted segments with
    life: Life | None = None  # None: the newest one


def life(name: str, value: str) -> Life:
    """`17`, or `17-2` of a topic that was emptied twice."""
    found = _LIFE.fullmatch(value)
    if found is None:
        raise fail(name, value, "the number in a topic's folder, such as 17, or 17-2 after a purge")
    return Life(int(found["incarnation"]), int(found["purges"] or 0))


def parse(values: Mapping[str, Any]) -> ArchiveOptions | None:
    """From `archivePath`, `archiveMode` and `archive.*`; None: no archive is read.

    Raises:
        OptionError: they do not go together.
    """
    path, mode = values["archivePath"], values["archiveMode"]
    given = [
        name
        for name in (*OF_BUCKETS, "archive.keysPath", "archive.incarnation")
        if values[name] is not None
    ]
    if path is None:
        needing = ["archiveMode=only"] if mode == "only" else given
        if needing:
            raise OptionError(f"{needing[0]} needs archivePath: which archive is read?")
        return None
    if not path.startswith(("s3://", "s3a://")):
        _check_folder(path, given)
    if mode == "only" and values["consumerGroup"] is not None:
        raise OptionError(
            "consumerGroup needs a broker, and archiveMode=only asks none: leave one of them out"
        )
    path_style, endpoint = values["archive.pathStyle"], values["archive.endpoint"]
    found = ArchiveOptions(
        path,
        is_all=mode == "only",
        endpoint=endpoint or "",
        region=values["archive.region"] or "",
        path_style=endpoint is not None if path_style is None else path_style,
        credentials_path=values["archive.credentialsPath"] or "",
        keys_path=values["archive.keysPath"] or "",
        life=values["archive.incarnation"],
    )
    return None if mode == "off" else found


def _check_folder(path: str, given: list[str]) -> None:
    for name in given:
        if name in OF_BUCKETS:
            raise OptionError(f"{name} is for buckets, and archivePath is a folder: leave it out")
    if not Path(path).is_absolute():
        raise fail("archivePath", path, "a whole path such as /mnt/archive, or s3://bucket/prefix")
