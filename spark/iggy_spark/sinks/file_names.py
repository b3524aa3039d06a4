"""Names of sink files: incarnation, partition and offsets. Pure.

A name says exactly which messages a file is about, so the folder itself is the record of what is
done: writing a range again gives the same name, and a lost checkpoint can be made up for by
looking at names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iggy_spark.offsets import OffsetRange

PARQUET = ".parquet"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"  # how Hive, Spark and Arrow spell null in a folder name
FOLDER_BYTES_MAX = 200  # of one folder name; file systems stop at 255

_NAME = re.compile(
    r"(?P<incarnation>\d+-\d+)-p(?P<partition>\d{5,10})-(?P<first>\d{20})-(?P<last>\d{20})"
)
# What Hive and Spark escape, as %XX of the character. Other text stays readable.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


@dataclass(frozen=True, slots=True)
class FileName:
    """One name, taken apart. `end` is exclusive, in the text it is the last offset.

    As text it has no suffix: files of one range share a name, whatever their formats.
    """

    incarnation: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        """The name, to which a file's format adds its suffix."""
        offsets = f"{self.first:020d}-{self.end - 1:020d}"
        return f"{self.incarnation}-p{self.partition:05d}-{offsets}"


def of_range(wanted: OffsetRange) -> FileName:
    """The name for a range."""
    return FileName(wanted.incarnation, wanted.partition, wanted.first, wanted.end)


def parse(name: str) -> FileName | None:
    """The name of a file, of any format, taken apart; None if it is not one of ours."""
    hit = _NAME.fullmatch(name.rpartition(".")[0])
    if hit is None:
        return None
    return FileName(
        hit["incarnation"], int(hit["partition"]), int(hit["first"]), int(hit["last"]) + 1
    )


def folder(column: str, value: str | None) -> str:
    """Hive's folder name for a partition value; null and empty text share one.

    Raises:
        ValueError: the name would be too long for a file system.
    """
    text = NULL_FOLDER if not value else _ESCAPED.sub(lambda hit: f"%{ord(hit[0]):02X}", value)
    name = f"{_ESCAPED.sub(lambda hit: f'%{ord(hit[0]):02X}', column)}={text}"
    if len(name.encode()) > FOLDER_BYTES_MAX:
        raise ValueError(f"folder name {name[:40]}… has more than {FOLDER_BYTES_MAX} bytes")
    return name
