"""An S3 bucket as the sinks need it: whole objects, objects made once, uploads that appear later.

An upload is staged in parts and is invisible until it is completed; completing or aborting it is
final, and the store decides which came first. Whatever the store answers becomes a `StoreError`
with the address and the way out. Knows nothing of ranges and sinks.
"""

from __future__ import annotations

import datetime
import email.utils
import re
import uuid
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import ConnectionError as NotConnected

PART_BYTES: Final = 16 << 20  # of an upload; S3 allows 10,000 parts
ATTEMPTS_MAX: Final = 5  # of one request, with growing pauses
CONNECT_S: Final = 10
READ_S: Final = 60
CLIENTS_MAX: Final = 8  # kept in one process; the oldest goes
ACCESS_KEY_FILE: Final = "accessKeyId"
SECRET_KEY_FILE: Final = "secretAccessKey"
SERVER_ERROR: Final = 500  # and above
DEFAULT_REGION: Final = "us-east-1"  # stores that are not Amazon's ask for none

_ADDRESS: Final = re.compile(
    r"s3a?://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<key>.*))?"
)
_GONE: Final = frozenset({"NoSuchUpload", "NoSuchKey", "404"})
_EXISTS: Final = frozenset({"PreconditionFailed", "412"})
_AWAY: Final = (NotConnected, HTTPClientError, IncompleteReadError)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class StoreError(Exception):
    """The store says no, or does not answer."""


class StoreAway(StoreError):
    """The store does not answer, or not now: it can be asked again."""


class Changed(Exception):
    """The object is another one by now, or gone."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a store is reached. Empty fields: as Amazon's libraries find out themselves."""

    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    credentials_path: str = ""
    """Folder with the files accessKeyId and secretAccessKey, read anew for every task. Without it
    the environment or the role of the machine counts."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing has it."""

    key: str
    time_us: int  # when it was made or replaced, in microseconds since 1970
    size: int  # bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Staged:
    """An upload that waits for its completion."""

    key: str
    upload: str
    etags: tuple[str, ...] = ()


def is_address(text: str) -> bool:
    """Whether a path names a bucket rather than a folder."""
    return text.startswith(("s3://", "s3a://"))


def parse_address(text: str) -> tuple[str, str]:
    """Bucket, and prefix without slashes at its ends.

    Raises:
        ValueError: not such an address; the message says what one looks like.
    """
    hit = _ADDRESS.fullmatch(text)
    parts = ((hit["key"] if hit else None) or "").removesuffix("/").split("/")
    if (
        hit is None
        or any(part in (".", "..") for part in parts)
        or "" in parts[1:]
        or (parts[0] == "" and hit["key"])
    ):
        raise ValueError(f"{text!r} is no address such as s3a://bucket/folder")
    return hit["bucket"], "/".join(parts)


class Bucket:
    """One bucket below one prefix. Keys are given and returned without the prefix."""

    def __init__(self, address: str, connection: Connection) -> None:
        """Connects to nothing yet. Raises ValueError as `parse_address`."""
        self._address = address
        self._bucket, prefix = parse_address(address)
        self._prefix = f"{prefix}/" if prefix else ""
        self._connection = connection

    def put(self, key: str, data: bytes) -> None:
        """Make or replace an object. Raises StoreError."""
        with self._asking() as client:
            client.put_object(**self._named(key), Body=data)

    def put_once(self, key: str, data: bytes) -> bool:
        """Make an object; False if there is one already. Raises StoreError."""
        with self._asking() as client, _expecting(_EXISTS):
            client.put_object(**self._named(key), Body=data, IfNoneMatch="*")
            return True
        return False

    def get(self, key: str, *, first: int = 0, size: int | None = None) -> bytes | None:
        """An object's bytes, or at most `size` of them from byte `first` on, which it has; None if
        there is none. Raises StoreError.
        """
        span = {} if size is None else {"Range": f"bytes={first}-{first + size - 1}"}
        with self._asking() as client, _expecting(_GONE):
            return bytes(client.get_object(**self._named(key), **span)["Body"].read())
        return None

    def exists(self, key: str) -> bool:
        """Whether there is such an object. Raises StoreError."""
        with self._asking() as client, _expecting(_GONE):
            client.head_object(**self._named(key))
            return True
        return False

    def delete(self, key: str) -> None:
        """Remove an object, if there is one. Raises StoreError."""
        with self._asking() as client:
            client.delete_object(**self._named(key))

    def list_keys(self, below: str = "") -> Iterator[str]:
        """All keys that begin with `below`. Raises StoreError."""
        with self._asking() as client:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + below
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    yield item["Key"].removeprefix(self._prefix)

    def list_objects(self) -> Iterator[tuple[int, list[Listed]]]:
        """All objects, in pages, each with the time at the store (microseconds since 1970) when it
        answered. Raises StoreError.
        """
        with self._asking() as client:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            )
            for page in pages:
                told = page["ResponseMetadata"]["HTTPHeaders"]["date"]
                now_us = _us(email.utils.parsedate_to_datetime(told))
                yield now_us, [self._listed(item) for item in page.get("Contents", ())]

    def _listed(self, item: dict[str, Any]) -> Listed:
        key = item["Key"].removeprefix(self._prefix)
        return Listed(key, _us(item["LastModified"]), item["Size"], item["ETag"])

    def read(self, key: str, *, etag: str, first: int, size: int) -> bytes:
        """`size` bytes of an object from byte `first` on.

        Raises:
            Changed: the object has another ETag, or is gone.
            StoreError: the store says no.
        """
        span = f"bytes={first}-{first + size - 1}"
        with self._asking() as client, _expecting(_GONE | _EXISTS):
            answer = client.get_object(**self._named(key), Range=span, IfMatch=etag)
            return bytes(answer["Body"].read())
        raise Changed(key)

    def stage(self, key: str, file: Path) -> Staged:
        """Upload a file that is not empty, without making it appear. Raises StoreError, OSError."""
        with self._asking() as client:
            named = self._named(key)
            upload = client.create_multipart_upload(**named)["UploadId"]
            etags: list[str] = []
            try:
                with file.open("rb") as source:
                    while part := source.read(PART_BYTES):
                        answer = client.upload_part(
                            **named, UploadId=upload, PartNumber=len(etags) + 1, Body=part
                        )
                        etags.append(answer["ETag"])
            except BaseException:
                with suppress(StoreError):
                    self.abort(Staged(key, upload))
                raise
        return Staged(key, upload, tuple(etags))

    def complete(self, staged: Staged) -> bool:
        """Make an upload appear; False if it is not there: completed or aborted before.

        Raises:
            StoreError: not possible, or not known.
        """
        parts = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(staged.etags, 1)]
        with self._asking() as client, _expecting(_GONE):
            client.complete_multipart_upload(
                **self._named(staged.key),
                UploadId=staged.upload,
                MultipartUpload={"Parts": parts},
            )
            return True
        return False

    def abort(self, staged: Staged) -> None:
        """Drop an upload; one that is gone is fine. Raises StoreError."""
        with self._asking() as client, _expecting(_GONE):
            client.abort_multipart_upload(**self._named(staged.key), UploadId=staged.upload)

    def staged(self) -> Iterator[Staged]:
        """Uploads that wait, without their parts. Raises StoreError."""
        with self._asking() as client:
            pages = client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            )
            for page in pages:
                for item in page.get("Uploads", ()):
                    yield Staged(item["Key"].removeprefix(self._prefix), item["UploadId"])

    def _named(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        try:
            yield _client(self._connection)
        except ClientError as error:
            is_away = _status(error) >= SERVER_ERROR
            raise (StoreAway if is_away else StoreError)(self._told(error)) from error
        except _AWAY as error:
            raise StoreAway(f"{self._address}: {error}") from error
        except (BotoCoreError, ValueError) as error:
            raise StoreError(f"{self._address}: {error}") from error

    def _told(self, error: ClientError) -> str:
        code = _code(error)
        if code == "NoSuchBucket":
            return f"{self._address}: bucket {self._bucket} does not exist: create it"
        if code in ("AccessDenied", "403", "Forbidden"):
            return f"{self._address}: the store denies access: let this login read, write and list"
        if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
            return f"{self._address}: the store refuses the access key: correct the credentials"
        return f"{self._address}: {error}"


def check_once(bucket: Bucket, name: str) -> None:
    """Make an object beginning with `name`, twice: all hangs on the second attempt being refused.

    Raises:
        StoreError: it is not, or nothing can be written.
    """
    probe = f"{name}-{uuid.uuid4().hex}"
    bucket.put_once(probe, b"1")
    is_made_again = bucket.put_once(probe, b"2")
    bucket.delete(probe)
    if is_made_again:
        raise StoreError("the store ignores If-None-Match, which exactly once needs: upgrade it")


@contextmanager
def _expecting(codes: Container[str]) -> Iterator[None]:
    """A refusal with one of these codes ends the block, and nothing else."""
    try:
        yield
    except ClientError as error:
        if _code(error) not in codes:
            raise


def _us(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


_clients: dict[tuple[Connection, tuple[str, str] | None], Any] = {}


def _client(connection: Connection) -> Any:
    """A client of this process: making one takes longer than most requests.

    Raises:
        StoreError: the files of the login cannot be read.
    """
    login = _login(connection.credentials_path) if connection.credentials_path else None
    found = _clients.get((connection, login))
    if found is None:
        found = _new_client(connection, login)
        while len(_clients) >= CLIENTS_MAX:
            _clients.pop(next(iter(_clients)))
        _clients[connection, login] = found
    return found


def _login(folder: str) -> tuple[str, str]:
    try:
        key, secret = (
            (Path(folder) / name).read_text("utf-8").strip()
            for name in (ACCESS_KEY_FILE, SECRET_KEY_FILE)
        )
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"credentialsPath: {folder} needs the files {ACCESS_KEY_FILE} and {SECRET_KEY_FILE}: "
            f"{error}"
        ) from error
    return key, secret


def _new_client(connection: Connection, login: tuple[str, str] | None) -> Any:
    keys = {}
    if login is not None:
        keys = {"aws_access_key_id": login[0], "aws_secret_access_key": login[1]}
    # A session of its own: boto3's shared one is not made for threads.
    return boto3.session.Session().client(
        "s3",
        endpoint_url=connection.endpoint or None,
        region_name=connection.region or (DEFAULT_REGION if connection.endpoint else None),
        config=Config(
            s3={"addressing_style": "path" if connection.path_style else "auto"},
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
        ),
        **keys,
    )
