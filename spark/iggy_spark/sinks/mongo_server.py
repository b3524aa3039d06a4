"""Connections to MongoDB, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidName,
    OperationFailure,
    PyMongoError,
)

from iggy_spark import blocks, credentials
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import TransientError
from iggy_spark.sinks.web_login import FORBIDDEN, Denied, tls

CONNECT_TIMEOUT_MS: Final = 10_000
ANSWER_TIMEOUT_MS: Final = 60_000
TEXT_CHARS_MAX: Final = 400  # of an error
_LOGIN: Final = frozenset({13, 18, 8000})  # not allowed, not known, either (Atlas)
# Source: MongoDB's error codes; those that drivers' specification of retryable writes names, and
# those of time and of conflicts.
_LATER: Final = frozenset(
    {6, 7, 24, 46, 50, 64, 89, 91, 112, 134, 189, 202, 251, 262, 290, 317, 384, 462}
    | {9001, 10107, 11600, 11602, 13435, 13436, 16500}
)
_LABELS: Final = ("RetryableWriteError", "TransientTransactionError", "SystemOverloadedError")

Document = Mapping[str, Any]
T = TypeVar("T")


def connect(settings: blocks.Mongo) -> MongoClient[Document]:
    """A client, which connects when it is first asked; for the length of a block.

    Raises:
        OptionError: address, login or certificate cannot be used.
    """
    options: dict[str, Any] = {}
    found = credentials.read(
        "mongo.credentialsPath", settings.credentials_path, ("username", "password")
    )
    if len(found) == 1:
        raise OptionError(
            "mongo.credentialsPath: needs the files username and password, one is missing"
        )
    options |= found
    if settings.ca_path is not None:
        ca = Path(settings.ca_path) / "ca.crt"
        if not ca.is_file():
            raise OptionError(f"mongo.caPath: {ca} is not there")
        # Here, since PyMongo's own word for it depends on whether pyOpenSSL is installed.
        tls("mongo", settings.ca_path)
        options |= {"tls": True, "tlsCAFile": str(ca)}
    try:
        return MongoClient(
            settings.url,
            serverSelectionTimeoutMS=CONNECT_TIMEOUT_MS,
            connectTimeoutMS=CONNECT_TIMEOUT_MS,
            socketTimeoutMS=ANSWER_TIMEOUT_MS,
            retryWrites=False,  # done here, for as long as the settings say
            appname="iggykube",
            **options,
        )
    except (ConfigurationError, ValueError, TypeError) as error:
        raise OptionError(f"mongo.url: {shown(settings)} cannot be used: {error}") from error


def collection_of(client: MongoClient[Document], settings: blocks.Mongo) -> Collection[Document]:
    """The collection; what it confirms survives the loss of a node.

    Raises:
        OptionError: there are no such names.
    """
    try:
        return client[settings.database].get_collection(
            settings.collection, write_concern=WriteConcern("majority")
        )
    except InvalidName as error:
        raise OptionError(f"mongo.collection: {error}") from error


def called(settings: blocks.Mongo, work: Callable[[], T]) -> T:
    """What `work` finds, with errors as `retry.Retry` has them. A BulkWriteError passes.

    Raises:
        TransientError: it can be asked again.
        Denied: wrong login.
        SinkError: the server does not do it.
    """
    where = shown(settings)
    try:
        return work()
    except BulkWriteError:
        raise
    except ConnectionFailure as error:
        raise TransientError(f"{where}: {short(error)}", cause="unreachable") from error
    except ExecutionTimeout as error:
        raise TransientError(f"{where}: {short(error)}") from error
    except OperationFailure as error:
        if error.code in _LOGIN:
            raise Denied(
                f"mongo.credentialsPath: {where} does not let this login: {short(error)}",
                FORBIDDEN,
            ) from error
        if is_transient(error.code, error):
            raise TransientError(f"{where} cannot just now: {short(error)}") from error
        raise SinkError(f"mongo.collection: {where} answers: {short(error)}") from error
    except PyMongoError as error:
        raise SinkError(f"mongo.url: {where}: {short(error)}") from error


def is_transient(code: int | None, error: PyMongoError | None = None) -> bool:
    """Whether an error says: not now."""
    labelled = error is not None and any(map(error.has_error_label, _LABELS))
    return labelled or code in _LATER


def short(error: Exception) -> str:
    """An error for people: what the driver tells of its topology behind it is long."""
    text = str(error).partition(", full error:")[0].partition(", Topology Description:")[0]
    return " ".join(text.split())[:TEXT_CHARS_MAX]


def shown(settings: blocks.Mongo) -> str:
    """The address for people: what is behind ? may be a secret."""
    return settings.url.partition("?")[0]
