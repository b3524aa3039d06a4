"""The file of a job that carries a source into a topic: like that of a sink's job, with `source` in
place of `sink`. The source's fields are those of IggySource and of a topic's `sources[]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from iggy_spark import job_parts, options, source_blocks
from iggy_spark.errors import OptionError
from iggy_spark.job_parts import JobFile, Spec, check_place
from iggy_spark.source_blocks import JsonPath

MESSAGES_DEFAULT: Final = 100_000  # of a batch
MESSAGES_MAX: Final = 10_000_000

# Type → its field.
BLOCKS = {"Postgres": "postgres", "Files": "files", "Http": "http", "Random": "random"}


class SourceSpec(Spec, frozen=True, kw_only=True):
    """One source."""

    postgres: source_blocks.Postgres | None = None
    files: source_blocks.Files | None = None
    http: source_blocks.Http | None = None
    random: source_blocks.Random | None = None
    key: JsonPath | None = None
    """Where a message has its key; without it the source's own, if it gives any."""
    max_messages_per_trigger: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = MESSAGES_DEFAULT


class SourceConfig(JobFile, frozen=True, kw_only=True):
    """The whole file."""

    what = "source"

    source: SourceSpec

    @property
    def spec(self) -> SourceSpec:
        """The source."""
        return self.source


def parse(data: bytes, *, name: str) -> SourceConfig:
    """Check the content of a job file, which `name` stands for in errors. Starts no Spark.

    Raises:
        OptionError: a field is wrong; the message names it.
    """
    config = job_parts.decode(data, SourceConfig, name=name)
    source = config.source
    job_parts.check_common(config)
    job_parts.check_block("source", source, BLOCKS)
    if source.files is not None:
        check_place(
            "source.files.path", source.files.path, store=("source.files.s3", source.files.s3)
        )
        options.parse_duration_ms("source.files.settle", source.files.settle)
    if source.http is not None:
        options.parse_duration_ms("source.http.timeout", source.http.timeout)
    if source.postgres is not None:
        _check_postgres(source.postgres)
    return config


def _check_postgres(block: source_blocks.Postgres) -> None:
    options.parse_duration_ms("source.postgres.settle", block.settle)
    if len(set(block.tables)) != len(block.tables):
        raise OptionError("source.postgres.tables: a table is there twice: keep one")
    polls = block.mode == "Polling"
    if polls and len(block.tables) != 1:
        raise OptionError("source.postgres.tables: mode Polling reads one table: name one")
    if polls != (block.cursor_column is not None):
        raise OptionError("source.postgres.cursorColumn: goes with mode Polling, which needs it")
    if block.key_columns and not polls:
        raise OptionError("source.postgres.keyColumns: goes with mode Polling")
    for field, value in (
        ("slot", block.slot),
        ("publication", block.publication),
        ("snapshot", block.snapshot),
    ):
        if value and polls:
            raise OptionError(f"source.postgres.{field}: goes with mode Changes")


def writer_options(config: SourceConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """How the job's tasks reach the topic, as options of a write.

    Raises:
        OptionError: an environment variable of the login is missing.
    """
    return job_parts.topic_options(config, environ)


def reader_options(config: SourceConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """How the driver reaches the topic, and the group that it is in, as options of a read.

    Raises:
        OptionError: as `writer_options`.
    """
    return job_parts.topic_options(config, environ) | {"consumerGroup": config.name}
