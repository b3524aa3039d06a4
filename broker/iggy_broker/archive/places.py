"""The archive that the settings name."""

from __future__ import annotations

from pathlib import Path

from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.staging import StagedBucket
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.config_maintenance import S3, Archiver


def open_store(settings: Archiver, data: Path) -> ArchiveStore:
    """Connects to nothing yet. `data` is the data directory. ArchiveError: it cannot be used."""
    if settings.kind != S3:
        return FolderStore(settings.folder(data))
    given = settings.s3
    prefix = given.key_prefix.strip("/")
    place = BucketPlace(
        given.bucket,
        f"{prefix}/" if prefix else "",
        region=given.region,
        endpoint=given.endpoint,
        addressing=given.addressing,
        access_key_id=given.access_key_id,
        secret_access_key=given.secret_access_key,
    )
    try:
        if given.tmp_upload_dir:
            return StagedBucket(place, Path(given.tmp_upload_dir).expanduser())
        return BucketStore(place)
    except ImportError as error:
        raise ArchiveError(f"{error}; install it with: pip install 'iggykube[archive]'") from error
    except ValueError as error:  # an address that looks like one, and is none
        raise ArchiveError(f"the archive {place} cannot be used: {error}") from error
