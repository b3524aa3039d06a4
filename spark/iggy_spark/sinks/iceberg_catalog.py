"""The catalog of an Iceberg table: how it is opened, and what its errors mean.

Its settings are PyIceberg's (py.iceberg.apache.org, "Configuration"); this module adds two things:
values may lie in files of a folder, and errors are of our kinds, without these values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from requests import exceptions as http
from sqlalchemy import exc as sql

from iggy_spark import blocks, credentials
from iggy_spark.errors import IggySparkError, OptionError, SinkError
from iggy_spark.retry import TransientError

NAME_PROPERTY: Final = "name"  # which one PyIceberg has beside the properties
NAME_DEFAULT: Final = "default"
SECRETS_MAX: Final = 64  # files of the login
SECRET_LENGTH_MIN: Final = 4  # what is shorter says nothing, and would make messages unreadable

_BUSY = (
    exceptions.ServiceUnavailableError,
    exceptions.TooManyRequestsError,
    exceptions.ServerError,
    exceptions.AuthorizationExpiredError,
    exceptions.CommitStateUnknownException,
    exceptions.WaitingForLockException,
    sql.OperationalError,
)
_LOST = (http.ConnectionError, http.Timeout, ConnectionError, TimeoutError)
_REFUSED = (exceptions.UnauthorizedError, exceptions.ForbiddenError, exceptions.OAuthError)
# Words of Arrow's S3 errors, which are plain OSErrors, for a store that cannot just now.
_STORE_BUSY = (
    "NETWORK_CONNECTION", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE",
    "REQUEST_TIMEOUT", "THROTTLING", "HTTP status 503", "HTTP status 500",
)  # fmt: skip
_HARMLESS = frozenset({"type", "warehouse", "s3.endpoint", "s3.region", "prefix"})
_LIBRARY = (
    exceptions.CommitFailedException,
    exceptions.NoSuchTableError,
    exceptions.NotInstalledError,
    exceptions.RESTError,
    exceptions.ValidationException,
    sql.SQLAlchemyError,
    OSError,
    ValueError,
    *_BUSY,
    *_LOST,
)
_Ours = Callable[[str], Exception]
_CONFLICT: _Ours = partial(TransientError, cause="conflict")
_AWAY: _Ours = partial(TransientError, cause="unreachable")
# In order: the first that an error is one of says what it means.
_MEANINGS: tuple[tuple[Any, _Ours, str], ...] = (
    (exceptions.CommitFailedException, _CONFLICT, "another writer was first"),
    (_LOST, _AWAY, "the catalog does not answer"),
    (_BUSY, TransientError, "the catalog does not answer"),
    (_REFUSED, OptionError, "the catalog refuses the login (catalog, credentialsPath)"),
    (exceptions.NoSuchTableError, SinkError, "the table is gone"),
    (exceptions.NotInstalledError, OptionError, "the catalog needs a package that is missing"),
)


def properties(block: blocks.Iceberg) -> dict[str, str]:
    """The catalog's properties, with the files of the login on top. Read anew for each use.

    Raises:
        OptionError: the folder cannot be read.
    """
    return {**block.catalog, **_login(block)}


def _login(block: blocks.Iceberg) -> dict[str, str]:
    field, folder = "iceberg.credentialsPath", block.credentials_path
    if folder is None:
        return {}
    try:
        # Names with a dot are those that Kubernetes makes to switch to a new Secret.
        names = sorted(path.name for path in Path(folder).iterdir() if path.name[0] != ".")
    except OSError as error:
        raise OptionError(f"{field}: {folder} cannot be read: {error.strerror}") from error
    if len(names) > SECRETS_MAX:
        raise OptionError(f"{field}: {folder} has more than {SECRETS_MAX} files")
    return credentials.read(field, folder, names)


@contextmanager
def opened(block: blocks.Iceberg) -> Iterator[Catalog]:
    """The catalog, for a block whose errors become ours.

    Raises:
        TransientError: it cannot just now, or another writer was first.
        OptionError: the settings or the login are wrong.
        SinkError: anything else that it says.
    """
    found = properties(block)
    name = found.pop(NAME_PROPERTY, NAME_DEFAULT)
    with translated(block, found):
        catalog = load_catalog(name, **found)
        try:
            yield catalog
        finally:
            catalog.close()


def table_of(catalog: Catalog, block: blocks.Iceberg) -> Table:
    """The table as it is now."""
    return catalog.load_table(block.table)


@contextmanager
def translated(block: blocks.Iceberg, found: Mapping[str, str] | None = None) -> Iterator[None]:
    """A block whose errors become ours, as `opened` says; `found` are the catalog's properties."""
    values = properties(block) if found is None else found
    try:
        yield
    except (IggySparkError, TransientError):
        raise
    except _LIBRARY as error:
        kind, what = _meaning(error)
        # SQL errors repeat the statement and a link; their cause is what the database says.
        text = without_secrets(str(getattr(error, "orig", None) or error), values)
        # The library's own text could hold a secret, and Spark would show the whole chain.
        raise kind(f"iceberg.table: {block.table}: {what}: {text}") from None


def _meaning(error: Exception) -> tuple[_Ours, str]:
    for kinds, ours, what in _MEANINGS:
        if isinstance(error, kinds):
            return ours, what
    if isinstance(error, OSError) and any(word in str(error) for word in _STORE_BUSY):
        return _AWAY, "the store does not answer"
    return SinkError, type(error).__name__


def without_secrets(text: str, found: Mapping[str, str]) -> str:
    """A library's message on one line, without the values of properties that may be secret."""
    for name, value in found.items():
        if name not in _HARMLESS and len(value) >= SECRET_LENGTH_MIN:
            text = text.replace(value, f"<{name}>")
    return " ".join(text.split())
