"""How a PostgreSQL is reached, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import psycopg

from iggy_spark import blocks, credentials
from iggy_spark.errors import IggySparkError, OptionError, SinkError
from iggy_spark.retry import Cause, Retry, TransientError

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

PORT: Final = "5432"
HOSTS_MAX: Final = 16
LOCK_S: Final = 30  # for the row of a partition and for the table; others may hold them
STATEMENT_S: Final = 300  # for one portion of rows
IDLE_S: Final = 300  # between two portions, so that a frozen task cannot hold its locks for ever
MESSAGE_BYTES_MAX: Final = 255
_CONNECT: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # a host that vanished
    "target_session_attrs": "read-write",  # of several hosts the one that takes rows
    "client_encoding": "UTF8",
    "application_name": "iggykube",
}
# In the URL -> libpq's name. The first are those of PostgreSQL's JDBC driver.
_PARAMETERS: Final = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "user": "user",
    "application_name": "application_name",
    "channel_binding": "channel_binding",
    "connect_timeout": "connect_timeout",
    "gssencmode": "gssencmode",
    "options": "options",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
_ADDRESS = re.compile(r"//(?P<hosts>[^/?#]*)/(?P<database>[^/?#]+)(\?(?P<parameters>[^#]*))?")
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?")
_CHECKED = ("verify-full", "verify-ca")  # ways that look at the server's certificate


@dataclass(frozen=True, slots=True)
class Words:
    """How a block of settings calls things, for errors."""

    block: str  # its name
    scheme: str  # how its URL begins
    table: str  # its field that names tables


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, in libpq's words; without a password."""

    place: str  # host:port/database, for people
    parameters: Mapping[str, str]


def parse_url(url: str, words: Words) -> Address:
    """Read `postgresql://host:port/database?name=value`, also with several hosts.

    Raises:
        OptionError: another database, no such form, an unknown parameter, or a password.
    """
    field, scheme = f"{words.block}.url", words.scheme
    if not url.startswith(scheme):
        raise OptionError(f"{field}: write it like {scheme}//host:5432/database")
    found = _ADDRESS.fullmatch(url.removeprefix(scheme))
    hosts = found["hosts"].split(",") if found else []
    if any("@" in host for host in hosts):
        raise OptionError(f"{field}: a login stands in the URL; give it with credentialsPath")
    parts = [_HOST.fullmatch(host) for host in hosts]
    if found is None or None in parts or len(parts) > HOSTS_MAX:
        raise OptionError(f"{field}: write it like {scheme}//host:5432/database")
    parameters = {
        "host": ",".join(part["host"].strip("[]") for part in parts if part),
        "port": ",".join(part["port"] or PORT for part in parts if part),
        "dbname": unquote(found["database"]),
    }
    for name, value in parse_qsl(found["parameters"] or "", keep_blank_values=True):
        if name not in _PARAMETERS:
            raise OptionError(_unknown(field, name))
        parameters[_PARAMETERS[name]] = value
    return Address(f"{found['hosts']}/{parameters['dbname']}", parameters)


def _unknown(field: str, name: str) -> str:
    if name.lower() in ("password", "sslpassword"):
        return f"{field}: {name} stands in the URL; give passwords with credentialsPath"
    return f"{field}: parameter {name!r} is not known; there are {', '.join(sorted(_PARAMETERS))}"


class Database:
    """Opens connections to one database, with the login as it is at that moment."""

    def __init__(self, url: str, login: blocks.Verified, words: Words) -> None:
        """Connects to nothing yet.

        Raises:
            OptionError: the URL is wrong, or does not fit the authority.
        """
        self.words = words
        self._address = parse_url(url, words)
        self._credentials = login.credentials_path
        self._ca = login.ca_path
        mode = self._address.parameters.get("sslmode", _CHECKED[0])
        if self._ca is not None and mode not in _CHECKED:
            raise OptionError(
                f"{words.block}.caPath: with sslmode={mode} nobody looks at the certificate: use "
                f"{' or '.join(_CHECKED)}"
            )

    def __str__(self) -> str:
        return self._address.place

    def connect(self) -> Connection:
        """A new connection. Its first statement begins a transaction, closing it undoes all.

        Raises:
            TransientError: the server cannot be reached, or takes nobody just now.
            SinkError: it refuses this login.
            OptionError: there is no login or authority to read.
        """
        parameters = {**_CONNECT, **self._address.parameters}
        if self._ca is not None:
            certificate = Path(self._ca) / "ca.crt"
            if not certificate.is_file():  # libpq would call it a connection that failed
                raise OptionError(f"{self.words.block}.caPath: there is no {certificate}")
            parameters = {"sslmode": _CHECKED[0], **parameters, "sslrootcert": str(certificate)}
        login = credentials.read(
            f"{self.words.block}.credentialsPath", self._credentials, ("username", "password")
        )
        if "username" in login:
            parameters["user"] = login["username"]
        try:
            # Without prepared statements, which a pooler in front may not carry.
            return psycopg.connect(
                **parameters,  # type: ignore[arg-type]
                password=login.get("password"),
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise _not_connected(error, self.words.block) from error

    def call(self, retry: Retry, work: Callable[[Connection], T]) -> T:
        """`work` on a connection of its own, again and again while the database cannot.

        Raises:
            SinkError: not with this login, or not for as long as `retry` allows.
            OptionError: something is not there.
        """

        def once() -> T:
            connection = self.connect()
            try:
                connection.execute(_settings().encode())
                return work(connection)
            except psycopg.Error as error:
                raise meaning(error, self.words) from error
            finally:
                connection.close()

        return retry.call(once, what=f"{self.words.block}.url: {self}")


def _settings() -> str:
    """Of the transaction, not of the session: a pooler in front gives sessions to others."""
    return (
        f"set local lock_timeout = '{LOCK_S}s'; set local statement_timeout = '{STATEMENT_S}s'; "
        f"set local idle_in_transaction_session_timeout = '{IDLE_S}s'; "
        "set local timezone = 'UTC'; "
        "set constraints all immediate"  # else some speak up at the commit, for whatever row
    )


# A connection that fails has no SQLSTATE, so the server's words must do. Where it speaks another
# language, a wrong login is taken for an outage, and told when the time for retries is over.
_NO_LOGIN = re.compile(
    r"authentication failed|no pg_hba\.conf entry|role .* does not exist|no password supplied"
    r"|is not permitted to log in|permission denied for database|certificate verify failed"
    r"|does not match host name|SSL was required|does not support SSL|invalid sslmode"
    r"|invalid channel_binding|invalid gssencmode"
)
_NO_DATABASE = re.compile(r"database .* does not exist")


def _not_connected(error: psycopg.Error, block: str) -> IggySparkError | TransientError:
    told = _one_line(str(error))
    if _NO_DATABASE.search(told):
        return OptionError(f"{block}.url: {told}")
    if _NO_LOGIN.search(told):
        return SinkError(f"{block}.url: {told}; look at {block}.credentialsPath and sslmode")
    return TransientError(told, cause="unreachable")


# SQLSTATEs (PostgreSQL 15, appendix A): a class of two characters, or a whole one.
_TRANSIENT = (
    "08",  # connection lost
    "25006",  # read only: a standby, after a failover
    "25P03",  # idle in transaction for too long: the broker was away
    "40",  # serialization failure, deadlock
    "53",  # no connections, memory or disk left
    "55",  # in use, lock not available
    "57",  # shut down, starting, cancelled
    "58",  # the server's disk
)
_LOST: Final = "08"
_CONFLICT: Final = ("40", "55")
_OF_A_ROW = (
    "21",  # a key twice in one statement: rows that are equal to the server alone
    "22",  # does not fit the type
    "23",  # violates a constraint
    "44",  # is not in the view
    "54",  # larger than an index takes
    "P0",  # a trigger says no
)
_NO_RIGHT: Final = "42501"
_OF_US = ("22P03", "22P04")  # COPY cannot read what we send, whatever the row holds
_NAMED: Final = {
    "55P03": "lock_timeout: another transaction holds a lock",
    "57014": "statement_timeout: a statement took too long, or somebody cancelled it",
    "25P03": "idle_in_transaction_session_timeout: no rows came for too long",
}


def is_of_a_row(error: psycopg.Error) -> bool:
    """Whether single rows are to blame."""
    state = error.sqlstate or ""
    if state == _NO_RIGHT:
        # Row level security has the code of a missing right, and comes from elsewhere.
        return error.diag.source_function == "ExecWithCheckOptions"
    return state.startswith(_OF_A_ROW) and state not in _OF_US


def _cause(state: str | None) -> Cause:
    if state is None or state.startswith(_LOST):
        return "unreachable"
    return "conflict" if state.startswith(_CONFLICT) else "busy"


def meaning(error: psycopg.Error, words: Words) -> IggySparkError | TransientError:
    """What an error says that is not about single rows."""
    state, told, field = error.sqlstate, said(error), f"{words.block}.{words.table}"
    if state is None or state.startswith(_TRANSIENT):
        shown = f"{_NAMED[state]} ({told})" if state in _NAMED else told
        return TransientError(shown, cause=_cause(state))
    if state == _NO_RIGHT:
        return SinkError(f"{field}: {told}; the user of {words.block}.credentialsPath needs it")
    if state in ("3F000", "42P01", "42703"):  # no such schema, table, column
        return OptionError(f"{field}: {told}; was it renamed or dropped?")
    return SinkError(f"{field}: {told} (SQLSTATE {state})")


def said(error: psycopg.Error) -> str:
    """The server's message on one line, cut to `MESSAGE_BYTES_MAX`."""
    told = _one_line(error.diag.message_primary or str(error))
    return told.encode()[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore")


def _one_line(text: str) -> str:
    return " ".join(text.split())
