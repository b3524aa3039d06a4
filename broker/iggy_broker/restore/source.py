"""Which archive is meant: that of the settings, or another one. Decides only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from iggy_broker.config_maintenance import DISK, S3, Archiver

_SCHEME: Final = "s3://"

replace = msgspec.structs.replace


def named(settings: Archiver, source: str, *, endpoint: str = "", region: str = "") -> Archiver:
    """Settings of the archive `source`: a folder, or s3://bucket/prefix.

    Login, and for a bucket endpoint and region where they are empty, are those of `settings`.
    ValueError: it names none.
    """
    if not source.startswith(_SCHEME):
        if "://" in source or not source:
            raise ValueError(f"--from {source!r}: name a folder, or s3://bucket/prefix")
        disk = replace(settings.disk, path=str(Path(source).expanduser().absolute()))
        return replace(settings, enabled=True, kind=DISK, disk=disk)
    bucket, _, prefix = source.removeprefix(_SCHEME).partition("/")
    if not bucket:
        raise ValueError(f"--from {source!r}: name the bucket, as in s3://bucket/prefix")
    s3 = replace(
        settings.s3,
        bucket=bucket,
        key_prefix=prefix,
        endpoint=endpoint or settings.s3.endpoint,
        region=region or settings.s3.region,
    )
    return replace(settings, enabled=True, kind=S3, s3=s3)


def place_of(settings: Archiver, data: Path) -> str:
    """Where the archive of `settings` is, for people. `data`: the data directory."""
    if settings.kind == S3:
        return f"{_SCHEME}{settings.s3.bucket}/{settings.s3.key_prefix.strip('/')}"
    return str(settings.folder(data).absolute())


def is_same(one: Archiver, other: Archiver, data: Path) -> bool:
    """Whether both are the same archive."""
    if place_of(one, data) != place_of(other, data):
        return False
    return one.kind != S3 or one.s3.endpoint.rstrip("/") == other.s3.endpoint.rstrip("/")
