"""Where a Delta table lies, and how the library reaches it.

Files of data are written by our own code, the table's log by the library. Both find the login anew
each time.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from iggy_spark import blocks, credentials, s3
from iggy_spark.errors import SinkError
from iggy_spark.retry import TransientError
from iggy_spark.sinks.folder import WORK
from iggy_spark.state import sync_folder

# The library's own attempts; ours come on top.
_ATTEMPTS: Final = {"max_retries": "3", "retry_timeout": "30s", "connect_timeout": "10s"}
_SERVER_ERROR: Final = 500
_BUSY_STATUS: Final = (408, 429)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# Words of the library's errors of a store that cannot just now; it has one class for all.
_BUSY: Final = ("error sending request", "retry_timeout", "timed out", "503", "SlowDown", "429")


class FilesPlace(Protocol):
    """The folder of a table, for files of data. Names are relative to it. Raises as `asking`."""

    def check(self) -> None:
        """Whether commits of two writers would be told apart."""

    def put(self, name: str, file: Path) -> None:
        """Make a file, whole and durable."""

    def get(self, name: str, to: Path) -> None:
        """Copy a file from there."""

    def names(self, below: str) -> Iterator[str]:
        """Files below a folder."""

    def remove(self, name: str) -> None:
        """Remove a file."""


class FolderFiles:
    """In a folder of a file system."""

    def __init__(self, root: Path) -> None:
        """Touches nothing yet."""
        self._root = root

    def check(self) -> None:
        """See `FilesPlace`: a link can be made only once, and the library makes links."""
        self._root.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, file: Path) -> None:
        """See `FilesPlace`. A file without its end is no harm: no commit names it."""
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 8 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        sync_folder(target.parent)

    def get(self, name: str, to: Path) -> None:
        """See `FilesPlace`."""
        shutil.copyfile(self._root / name, to)

    def names(self, below: str) -> Iterator[str]:
        """See `FilesPlace`."""
        for path in (self._root / below).glob("*"):
            yield str(path.relative_to(self._root))

    def remove(self, name: str) -> None:
        """See `FilesPlace`."""
        (self._root / name).unlink(missing_ok=True)


class BucketFiles:
    """In a bucket."""

    def __init__(self, address: str, connection: s3.Connection) -> None:
        """Touches nothing yet."""
        self._bucket = s3.Bucket(address, connection)

    def check(self) -> None:
        """See `FilesPlace`: an object can be made only once, if the store can do that."""
        s3.check_once(self._bucket, f"{WORK}/probe")

    def put(self, name: str, file: Path) -> None:
        """See `FilesPlace`."""
        staged = self._bucket.stage(name, file)
        # A second attempt of the store's library finds the first one's work done.
        if not self._bucket.complete(staged) and not self._bucket.exists(name):
            raise s3.StoreError(f"the upload of {name} was dropped: does a rule end uploads?")

    def get(self, name: str, to: Path) -> None:
        """See `FilesPlace`."""
        data = self._bucket.get(name)
        if data is None:
            raise SinkError(f"delta.path: {name} is gone: another run of this sink removed it")
        to.write_bytes(data)

    def names(self, below: str) -> Iterator[str]:
        """See `FilesPlace`."""
        yield from self._bucket.list_keys(f"{below}/")

    def remove(self, name: str) -> None:
        """See `FilesPlace`."""
        self._bucket.delete(name)


def files_of(block: blocks.Delta) -> FilesPlace:
    """The place of a table's files."""
    if s3.is_address(block.path):
        return BucketFiles(block.path, block.s3.connection())
    return FolderFiles(Path(block.path))


def address(block: blocks.Delta) -> str:
    """The table as the library names it."""
    if s3.is_address(block.path):
        return "s3://" + block.path.partition("://")[2]
    return block.path


def storage_options(block: blocks.Delta) -> dict[str, str]:
    """How the library reaches a store: object_store's names. Empty for a folder.

    Raises:
        OptionError: the login cannot be read.
    """
    if not s3.is_address(block.path):
        return {}
    place = block.s3
    names = (s3.ACCESS_KEY_FILE, s3.SECRET_KEY_FILE)
    login = credentials.read("delta.s3.credentialsPath", place.credentials_path, names)
    region = place.region or (s3.DEFAULT_REGION if place.endpoint else None)
    found = {
        "AWS_ENDPOINT_URL": place.endpoint,
        "AWS_REGION": region,
        "AWS_ACCESS_KEY_ID": login.get(names[0]),
        "AWS_SECRET_ACCESS_KEY": login.get(names[1]),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false" if place.connection().path_style else None,
        "AWS_ALLOW_HTTP": "true" if (place.endpoint or "").startswith("http://") else None,
        "AWS_CONDITIONAL_PUT": "etag",  # a version of the log is made only once
        **_ATTEMPTS,
    }
    return {name: value for name, value in found.items() if value is not None}


def load(block: blocks.Delta) -> DeltaTable:
    """The table as it is now. Raises TableNotFoundError, and as `asking`."""
    return DeltaTable(address(block), storage_options=storage_options(block))


@contextmanager
def asking(block: blocks.Delta) -> Iterator[None]:
    """A block whose errors become ours.

    Raises:
        TransientError: the store cannot just now, or another writer was first.
        SinkError: anything else that store or library say.
    """
    try:
        yield
    except CommitFailedError as error:
        text = _told(block, f"another writer was first: {error}")
        raise TransientError(text, cause="conflict") from error
    except s3.StoreError as error:
        kind = _meaning(error.__cause__)
        raise kind(_told(block, str(error))) from error
    except (DeltaError, OSError) as error:
        is_busy = isinstance(error, OSError) and any(word in str(error) for word in _BUSY)
        kind = TransientError if is_busy else SinkError
        raise kind(_told(block, str(error))) from error


def _meaning(error: BaseException | None) -> Callable[[str], Exception]:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_busy = status >= _SERVER_ERROR or status in _BUSY_STATUS
        return TransientError if is_busy else SinkError
    if isinstance(error, BotoCoreError):
        return partial(TransientError, cause="unreachable")
    return SinkError


def _told(block: blocks.Delta, text: str) -> str:
    return f"delta.path: {block.path}: {' '.join(_COLOUR.sub('', text).split())}"
