"""Blocks of a sink's settings, one for each type, as the resource IggySink has them.

Fields named `...SecretName` are for whoever starts the job: it mounts the Secret, and gives the
folder as `...Path` in the job's file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from iggy_spark import s3

FOLDER_COLUMNS_MAX = 8  # of partitionBy
KEY_COLUMNS_MAX = 16
BATCH_ROWS_MAX = 100_000  # of one call to a database
REDRIVE_WORDS_MAX = 32  # error classes, or stages, of one request

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
HttpAddress = Annotated[str, msgspec.Meta(pattern="^https?://[^/@?#]+", max_length=1024)]
Columns = Annotated[list[Name], msgspec.Meta(max_length=FOLDER_COLUMNS_MAX)]
Keys = Annotated[list[Name], msgspec.Meta(max_length=KEY_COLUMNS_MAX)]


class Part(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """Base of all parts: camelCase in the file, nothing unknown."""


class S3(Part, frozen=True):
    """How an object store is reached; see `s3.Connection`."""

    endpoint: Annotated[str, msgspec.Meta(pattern="^https?://[^/@]+/?$")] | None = None
    region: Text | None = None
    path_style: bool | None = None
    """None: with an endpoint, as stores that are not Amazon's want it."""
    credentials_path: Text | None = None
    credentials_secret_name: Any = None

    def connection(self) -> s3.Connection:
        """In the words of the code that uses it."""
        return s3.Connection(
            endpoint=self.endpoint or "",
            region=self.region or "",
            path_style=self.endpoint is not None if self.path_style is None else self.path_style,
            credentials_path=self.credentials_path or "",
        )


class Login(Part, frozen=True, kw_only=True):
    """What blocks of targets with a login have in common: folders with one file a value."""

    credentials_path: Text | None = None
    credentials_secret_name: Any = None


class Verified(Login, frozen=True, kw_only=True):
    """The same for targets whose certificate is checked: `ca_path` is a folder with ca.crt."""

    ca_path: Text | None = None
    ca_secret_name: Any = None


class Files(Part, frozen=True):
    """Block of sink type Files."""

    path: Text
    format: Literal["Parquet", "Orc", "Json", "Csv", "Text"] = "Parquet"
    partition_by: Columns = []
    list_batches: bool = False
    """Write a list of the files of each batch, see `sinks.batch_lists`."""
    s3: S3 = S3()


class Iceberg(Login, frozen=True, kw_only=True):
    """Block of type Iceberg. The login's files are named like properties of the catalog."""

    table: Name
    catalog: Annotated[dict[str, str], msgspec.Meta(max_length=64)] = {}
    create_table: bool = True
    partition_by: Columns = []


class Delta(Part, frozen=True):
    """Block of type Delta."""

    path: Text
    mode: Literal["Append", "Upsert"] = "Append"
    key_columns: Keys = []
    partition_by: Columns = []
    s3: S3 = S3()


class Jdbc(Verified, frozen=True, kw_only=True):
    """Block of type Jdbc. Files of the login: username, password. `driver` and `batch_size` are for
    other databases than PostgreSQL.
    """

    url: Annotated[str, msgspec.Meta(pattern="^jdbc:[a-z0-9]+:", max_length=1024)]
    table: Name
    create_table: bool = True
    mode: Literal["Append", "Upsert"] = "Append"
    key_columns: Keys = []
    driver: Name | None = None
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=BATCH_ROWS_MAX)] | None = None


class Elasticsearch(Verified, frozen=True, kw_only=True):
    """Block of type Elasticsearch, for OpenSearch too. Files: username and password, or apiKey."""

    urls: Annotated[list[HttpAddress], msgspec.Meta(min_length=1, max_length=16)]
    index: Name
    id_from: Literal["Offset", "Field", "Generated"] = "Offset"
    id_field: Name | None = None
    op_type: Literal["Index", "Create"] = "Index"


class Quickwit(Verified, frozen=True, kw_only=True):
    """Block of type Quickwit. File of the login: token."""

    url: HttpAddress
    index: Name
    index_config: Annotated[str, msgspec.Meta(max_length=65536)] | None = None


class ClickHouse(Verified, frozen=True, kw_only=True):
    """Block of type ClickHouse. Files of the login: username, password."""

    url: HttpAddress
    database: Name = "default"
    table: Name


class Mongo(Verified, frozen=True, kw_only=True):
    """Block of type Mongo. Files of the login: username, password."""

    url: Annotated[str, msgspec.Meta(pattern=r"^mongodb(\+srv)?://[^/@]+", max_length=1024)]
    database: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    collection: Name
    id_from: Literal["Offset", "Field"] = "Offset"
    id_field: Name | None = None


class OAuth2(Part, frozen=True):
    """Tokens by client credentials; the files clientId and clientSecret are in the login."""

    token_url: HttpAddress
    scope: Text | None = None


class Http(Verified, frozen=True, kw_only=True):
    """Block of type Http. Files of the login: token; or username and password; or clientId and
    clientSecret for `oauth2`; tls.crt and tls.key for a server that wants a certificate.
    """

    url: HttpAddress
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    body: Literal["Individual", "NdJson", "JsonArray", "Raw"] = "NdJson"
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=32)] = {}
    success_codes: Annotated[list[int], msgspec.Meta(max_length=16)] = []
    metadata: bool = False
    """Wrap each message: {"metadata": {…}, "payload": …}."""
    timeout: str = "30s"
    oauth2: OAuth2 | None = None


class IggyCopy(Part, frozen=True):
    """Block of type Iggy: another topic of the same broker."""

    stream: Name
    topic: Name
    partitioning: Literal["Same", "Balanced"] = "Same"


class Redrive(Part, frozen=True):
    """A request to write dead letters again; carried out once for each text of `request`."""

    request: Text
    error_classes: Annotated[tuple[Name, ...], msgspec.Meta(max_length=REDRIVE_WORDS_MAX)] = ()
    """Only letters of these classes; none named: of all."""
    stages: Annotated[tuple[Name, ...], msgspec.Meta(max_length=REDRIVE_WORDS_MAX)] = ()
    since: Text | None = msgspec.field(name="from", default=None)
    """Only letters of messages that the broker took at this time or later, ISO 8601 with a zone."""
    until: Text | None = msgspec.field(name="to", default=None)
    """And before this time."""


class Console(Part, frozen=True):
    """Block of type Console, which does without, too."""

    rows: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 20
    """That are shown of each batch; 0: all."""


class Custom(Part, frozen=True):
    """Block of type Custom: a user's own program."""

    main_application_file: Text
    arguments: Annotated[list[str], msgspec.Meta(max_length=64)] = []
