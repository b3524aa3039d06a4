"""Settings of brokers with an archive."""

from __future__ import annotations

from iggy_broker.archive.bucket import BucketPlace

NAME = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
BASE = {f"{NAME}ENABLED": "true", f"{NAME}INTERVAL": "100ms"}
CONTINUOUS = {**BASE, f"{NAME}CONTINUOUS": "true"}


def of_bucket(place: BucketPlace, endpoint: str | None = None) -> dict[str, str]:
    """Settings of an archive there."""
    return {
        f"{NAME}KIND": "s3",
        f"{NAME}S3_BUCKET": place.bucket,
        f"{NAME}S3_KEY_PREFIX": place.prefix,
        f"{NAME}S3_ENDPOINT": endpoint or place.endpoint,
        f"{NAME}S3_ACCESS_KEY_ID": place.access_key_id,
        f"{NAME}S3_SECRET_ACCESS_KEY": place.secret_access_key,
    }
