"""An archive below a prefix of an S3 bucket, also of stores that only speak its protocol.

What newer clients add by themselves (checksum headers, chunked signatures) is left out, since not
every store takes it: every object is read back and compared instead, by whoever stores it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from iggy_broker.archive.store import ArchiveError, ReadAt, Stored, put_into

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

PART_BYTES: Final = 8 << 20
"""Objects above this are sent in parts of it, or of more where there would be too many."""
PARTS_MAX: Final = 10_000  # S3
ATTEMPTS_MAX: Final = 4  # of one request, with growing pauses
CONNECT_S: Final = 10
READ_S: Final = 60
SIGNED_S: Final = 600
"""So long a signed address works, for whoever has it."""
SIGNED_BYTES_MIN: Final = 256 << 10
"""Stretches of this length are read by a signed address; shorter ones cost the same either way."""
DEFAULT_REGION: Final = "us-east-1"
_GONE: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_NO_UPLOAD: Final = "NoSuchUpload"


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """Where the bucket is and who asks. Empty login: the environment or the machine's role."""

    bucket: str
    prefix: str = ""
    """Empty, or with a slash at its end."""
    region: str = ""
    endpoint: str = ""
    """Of a store that is not Amazon's."""
    addressing: str = "auto"
    """auto, path or virtual: where the bucket's name stands."""
    access_key_id: str = ""
    secret_access_key: str = ""

    def __str__(self) -> str:
        """For people: no secret."""
        return f"s3://{self.bucket}/{self.prefix}"


class BucketStore:
    """See `store.ArchiveStore`. For several threads."""

    def __init__(self, place: BucketPlace) -> None:
        """Connects to nothing yet."""
        self._place = place
        with self._trouble("cannot be used"):
            self._client = _client(place)
        from iggy_broker.archive.signed_reads import SignedReads  # not every archive is a bucket

        self._signed = SignedReads(self._sign, connect_s=CONNECT_S, read_s=READ_S)

    def check(self) -> None:
        """Look into the bucket, and abort uploads below the prefix that nobody will complete."""
        with self._trouble("cannot be listed: check bucket, endpoint, region and credentials"):
            for page in self._pages("list_multipart_uploads", "Uploads"):
                for upload in page:
                    self._abort(upload["Key"], upload["UploadId"])
            self._client.list_objects_v2(**self._where(), MaxKeys=1)

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        """Send an object, in parts if it is large."""
        with self._trouble(f"does not take {key}"):
            if size_bytes <= PART_BYTES:
                body = _whole(read, size_bytes, 0)
                self._client.put_object(**self._object(key), Body=body, ContentLength=size_bytes)
            else:
                self._put_parts(key, read, size_bytes)

    def _put_parts(self, key: str, read: ReadAt, size_bytes: int) -> None:
        part_bytes = max(PART_BYTES, -(-size_bytes // PARTS_MAX))
        upload = self._client.create_multipart_upload(**self._object(key))["UploadId"]
        try:
            parts = []
            for number, position in enumerate(range(0, size_bytes, part_bytes), 1):
                body = _whole(read, min(part_bytes, size_bytes - position), position)
                answer = self._client.upload_part(
                    **self._object(key),
                    UploadId=upload,
                    PartNumber=number,
                    Body=body,
                    ContentLength=len(body),
                )
                parts.append({"ETag": answer["ETag"], "PartNumber": number})
            self._complete(key, upload, parts, size_bytes)
        except BaseException:
            self._abort(self._place.prefix + key, upload)
            raise

    def _complete(
        self, key: str, upload: str, parts: list[dict[str, Any]], size_bytes: int
    ) -> None:
        from botocore.exceptions import ClientError

        try:
            self._client.complete_multipart_upload(
                **self._object(key), UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except ClientError as error:
            # It was completed, and the answer was lost: the client has asked again.
            if _code(error) != _NO_UPLOAD or self.size(key) != size_bytes:
                raise

    def read(self, key: str, size_bytes: int, position: int) -> bytes:
        """Ask for a stretch."""
        if size_bytes >= SIGNED_BYTES_MIN:
            with self._trouble(f"does not give {key}"):
                found = self._signed.read(key, size_bytes, position)
            if found is not None:
                return found
        return self._ask(key, size_bytes, position)

    def _ask(self, key: str, size_bytes: int, position: int) -> bytes:
        """By the S3 library."""
        from botocore.exceptions import ClientError

        if not size_bytes:
            return b""
        with self._trouble(f"does not give {key}"):
            try:
                wanted = f"bytes={position}-{position + size_bytes - 1}"
                answer = self._client.get_object(**self._object(key), Range=wanted)
                data: bytes = answer["Body"].read()
            except ClientError as error:
                if _code(error) in _GONE:
                    raise FileNotFoundError(f"{self._place}{key}") from error
                if _code(error) == "InvalidRange":
                    return b""
                raise
        return data

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int:
        """Ask for a stretch, straight into memory if it is long."""
        size_bytes = sum(map(len, memory))
        if size_bytes >= SIGNED_BYTES_MIN:
            with self._trouble(f"does not give {key}"):
                filled = self._signed.read_into(key, memory, position)
            if filled is not None:
                return filled
        return put_into(memory, self._ask(key, size_bytes, position))

    def size(self, key: str) -> int | None:
        """Ask for its length."""
        from botocore.exceptions import ClientError

        with self._trouble(f"does not tell of {key}"):
            try:
                return int(self._client.head_object(**self._object(key))["ContentLength"])
            except ClientError as error:
                if _code(error) in _GONE:
                    return None
                # An answer to HEAD has no body, and so does not say why; one to GET does.
                self._client.get_object(**self._object(key), Range="bytes=0-0")["Body"].close()
                raise

    def entries(self, prefix: str, *, after: str = "") -> Iterator[Stored]:
        """Ask for keys, a page at a time."""
        start = len(self._place.prefix)
        with self._trouble("cannot be listed"):
            more = {"StartAfter": self._place.prefix + after} if after else {}
            for page in self._pages("list_objects_v2", "Contents", prefix, **more):
                for found in page:
                    yield Stored(found["Key"][start:], found["Size"])

    def folders(self, prefix: str) -> Iterator[str]:
        """Ask for what the keys have in common."""
        start = len(self._place.prefix + prefix)
        with self._trouble("cannot be listed"):
            for page in self._pages("list_objects_v2", "CommonPrefixes", prefix, Delimiter="/"):
                for found in page:
                    yield found["Prefix"][start:].removesuffix("/")

    def delete(self, key: str) -> None:
        """Remove an object."""
        with self._trouble(f"does not remove {key}"):
            self._client.delete_object(**self._object(key))

    def _sign(self, key: str) -> str:
        url: str = self._client.generate_presigned_url(
            "get_object", Params=self._object(key), ExpiresIn=SIGNED_S
        )
        return url

    def _pages(
        self, operation: str, field: str, prefix: str = "", **more: str
    ) -> Iterator[list[Any]]:
        for page in self._client.get_paginator(operation).paginate(**self._where(prefix), **more):
            yield page.get(field, [])

    def _abort(self, full_key: str, upload: str) -> None:
        """Tidying up: what stays is removed by the next start."""
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(BotoCoreError, ClientError):
            self._client.abort_multipart_upload(
                Bucket=self._place.bucket, Key=full_key, UploadId=upload
            )

    def _where(self, prefix: str = "") -> dict[str, str]:
        return {"Bucket": self._place.bucket, "Prefix": self._place.prefix + prefix}

    def _object(self, key: str) -> dict[str, str]:
        return {"Bucket": self._place.bucket, "Key": self._place.prefix + key}

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, EOFError) as error:
            raise ArchiveError(f"the archive {self._place} {what}: {error}") from error


def _whole(read: ReadAt, size_bytes: int, position: int) -> bytes:
    data = read(size_bytes, position)
    if len(data) != size_bytes:
        raise EOFError(f"{position + len(data)} bytes are there, more were expected")
    return data


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client(place: BucketPlace) -> Any:
    import boto3
    from botocore.config import Config

    login = {}
    if place.access_key_id:
        login = {
            "aws_access_key_id": place.access_key_id,
            "aws_secret_access_key": place.secret_access_key,
        }
    by_itself = "path" if place.endpoint else "auto"
    settings = Config(
        s3={"addressing_style": by_itself if place.addressing == "auto" else place.addressing},
        retries={"total_max_attempts": ATTEMPTS_MAX, "mode": "standard"},
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        signature_version="s3v4",  # of signed addresses, too
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client(
        "s3",
        endpoint_url=place.endpoint or None,
        region_name=place.region or (DEFAULT_REGION if place.endpoint else None),
        config=settings,
        **login,
    )
