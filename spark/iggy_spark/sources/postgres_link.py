"""The connection of a Postgres source, and the settings that its statements run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import psycopg
from psycopg import sql

from iggy_spark.errors import OptionError
from iggy_spark.postgres import Connection, Database, Words, meaning
from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Postgres

T = TypeVar("T")

SCHEME: Final = "postgresql:"
SHORT_SCHEME: Final = "postgres:"
WORDS: Final = Words("postgres", SCHEME, "tables")
LOCK_S: Final = 30
STATEMENT_S: Final = 3600  # of one statement: a batch, from the first row to the last
IDLE_S: Final = 300
LOOK_S: Final = 10  # until the server sees that who asked is gone, and gives the slot free
# Of the transaction: a pooler in front gives sessions to others. The last six are how values are
# written, whatever the server's own settings are.
_SETTINGS: Final = (
    f"set local lock_timeout = '{LOCK_S}s'; set local statement_timeout = '{STATEMENT_S}s'; "
    f"set local idle_in_transaction_session_timeout = '{IDLE_S}s'; "
    f"set local client_connection_check_interval = '{LOOK_S}s'; "
    "set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; "
    "set local intervalstyle = 'iso_8601'; set local bytea_output = 'hex'; "
    "set local extra_float_digits = 1; set local xmlbinary = 'base64'"
)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table with its schema, exactly these letters."""

    schema: str
    table: str

    @property
    def quoted(self) -> sql.Identifier:
        """As SQL takes it."""
        return sql.Identifier(self.schema, self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


def parse_table(text: str) -> TableName:
    """Read `schema.table`.

    Raises:
        OptionError: something else.
    """
    schema, dot, table = text.partition(".")
    if not (schema and dot and table) or "." in table:
        raise OptionError(f"postgres.tables: {text!r} must be schema.table")
    return TableName(schema, table)


class Link:
    """One connection that is kept between calls. Each call is a transaction."""

    def __init__(self, block: Postgres, retry: Retry) -> None:
        """Connects to nothing yet.

        Raises:
            OptionError: the URL is wrong, or does not fit the authority.
        """
        url = block.url
        if url.startswith(SHORT_SCHEME):  # and not anywhere else: servers have that name, too
            url = SCHEME + url.removeprefix(SHORT_SCHEME)
        self.database = Database(url, block, WORDS)
        self._retry = retry
        self._open: Connection | None = None

    def __str__(self) -> str:
        return str(self.database)

    def call(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, tried again while the database cannot. It is committed then.

        Raises:
            SinkError: not with this login, or not for as long as `retry` allows.
            OptionError: something is not there.
        """

        def once() -> T:
            connection = self._open or self.connect()
            self._open = None
            try:
                begin(connection)
                result = work(connection)
                connection.commit()
            except psycopg.Error as error:
                raise meaning(error, WORDS) from error
            else:
                self._open = connection
            finally:
                if self._open is None:
                    connection.close()
            return result

        return self.again(once)

    def again(self, once: Callable[[], T]) -> T:
        """What `once` returns, tried again while it raises `TransientError`."""
        return self._retry.call(once, what=f"{WORDS.block}.url: {self}")

    def connect(self) -> Connection:
        """Another connection, without settings: see `begin`."""
        return self.database.connect()

    def close(self) -> None:
        """Let go of the connection; the next call opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None


def begin(connection: Connection) -> None:
    """Begin a transaction with the settings."""
    connection.execute(_SETTINGS.encode())
