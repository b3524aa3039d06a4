"""Blocks of a source's settings, one for each type, as the resource IggySource has them.

Fields named `...SecretName` are for whoever starts the job: see `blocks`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from iggy_spark.blocks import S3, HttpAddress, Keys, Name, OAuth2, Part, Text, Verified

TABLES_MAX = 64  # of one Postgres source
PATH_CHARS_MAX = 255  # of a dotted path in a JSON message
PAYLOAD_BYTES_MAX = 1_000_000  # of a message of the Random source
RATE_MAX = 1_000_000  # messages a second of the Random source
NUMBER_MAX = (1 << 53) - 1  # so that every program that reads JSON reads it whole

TableName = Annotated[str, msgspec.Meta(pattern=r"^[^.\s]+\.[^.\s]+$", max_length=127)]
SlotName = Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]{1,63}$")]
JsonPath = Annotated[str, msgspec.Meta(pattern=r"^[^.]+(\.[^.]+)*$", max_length=PATH_CHARS_MAX)]


class Postgres(Verified, frozen=True, kw_only=True):
    """Block of type Postgres. Files of the login: username, password."""

    url: Annotated[
        str, msgspec.Meta(pattern=r"^postgres(ql)?://[^/@?#]+/[^/@?#]+$", max_length=1024)
    ]
    mode: Literal["Changes", "Polling"] = "Changes"
    tables: Annotated[list[TableName], msgspec.Meta(min_length=1, max_length=TABLES_MAX)]
    """Each as schema.table. With Polling exactly one."""
    slot: SlotName | None = None
    """Changes: the replication slot; without it named after the source."""
    publication: Name | None = None
    """Changes: without it named like the slot."""
    snapshot: bool = False
    """Changes: whether rows that are there already are sent first."""
    cursor_column: Name | None = None
    """Polling: grows with every row that is new or changed."""
    key_columns: Keys = []  # noqa: RUF012
    """Polling: tell rows with the same cursor apart."""
    settle: str = "2s"
    """Polling: how old a row must be before it is read."""


class Files(Part, frozen=True):
    """Block of type Files."""

    path: Text
    s3: S3 = S3()
    format: Literal["Json", "Csv", "Parquet", "Text", "Raw"] = "Json"
    settle: str = "5s"
    """How long a file must be unchanged before it is read."""


class HttpCursor(Part, frozen=True):
    """What was read last, told to the server."""

    parameter: Name
    """Of the query in the address."""
    path: JsonPath
    """Where an item has its value."""


class Http(Verified, frozen=True, kw_only=True):
    """Block of type Http. Files of the login: as for the sink of this type."""

    url: HttpAddress
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=32)] = {}  # noqa: RUF012
    timeout: str = "30s"
    oauth2: OAuth2 | None = None
    items: JsonPath | None = None
    """Where the answer has its list; without it the answer is the list, or one message."""
    cursor: HttpCursor | None = None
    id_path: JsonPath | None = None
    """Where an item has what tells it from all others."""
    next: Literal["Link"] | None = None
    """How the answer names its next page."""


class Random(Part, frozen=True):
    """Block of type Random: made-up messages, for trying things out and for load."""

    rate: Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)] = 10
    """Messages a second."""
    payload_bytes: Annotated[int, msgspec.Meta(ge=1, le=PAYLOAD_BYTES_MAX)] = 100
    keys: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None
    """How many different keys; without it messages have none."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)] = 0
    """Another seed, other messages."""
    messages: Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)] | None = None
    """How many in all; without it there is no end."""
