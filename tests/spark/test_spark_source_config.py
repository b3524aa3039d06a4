"""The file of a source's job: every mistake is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import job_file, options, source_config, write_options
from iggy_spark.errors import OptionError
from iggy_spark.job_config import JobConfig
from iggy_spark.retry import Policy
from iggy_spark.source_config import SourceConfig
from sink_jobs import LOGIN
from source_blocks import SYSTEMS
from source_files import source_job, source_of

POSTGRES = {
    "url": "postgresql://db.example:5432/shop",
    "tables": ["public.orders"],
    "credentialsPath": "/login",
}
POLLING = {**POSTGRES, "mode": "Polling", "cursorColumn": "changed"}


def test_a_job_becomes_options_of_a_write_and_of_the_group() -> None:
    config = source_of(source_job())

    written = write_options.parse(source_config.writer_options(config, LOGIN))
    read = options.parse(source_config.reader_options(config, LOGIN), mode="stream")

    assert (written.stream, written.topic) == ("shop", "orders")
    assert written.servers == ("127.0.0.1:8090",)
    assert read.consumer_group == "shop/orders.made"


def test_fields_of_all_jobs_are_as_for_sinks() -> None:
    retry = {"timeout": "2s", "initialDelay": "100ms", "maxDelay": "1s"}
    config = source_of(
        source_job(
            source__trigger={"mode": "AvailableNow", "interval": "3s"},
            source__errors={"retry": retry},
        )
    )

    assert (config.available_now, config.interval_ms) == (True, 3000)
    assert config.retry_policy == Policy(2.0, 0.1, 1.0)


def test_what_only_a_launcher_reads_is_let_pass() -> None:
    launcher = {"suspend": False, "restart": {"maxRetries": 3}, "topicRef": {"name": "orders"}}

    config = source_of(source_job(source={**source_job()["source"], **launcher}))

    assert config.source.type == "Random"


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("Postgres", POSTGRES),
        ("Postgres", {**POSTGRES, "slot": "shop", "publication": "shop", "snapshot": True}),
        ("Postgres", {**POLLING, "keyColumns": ["id"], "settle": "500ms"}),
        ("Files", {"path": "/in", "format": "Csv"}),
        ("Files", {"path": "s3a://inbox/orders", "s3": {"region": "eu-central-1"}}),
        ("Http", {"url": "https://shop.example/orders?state=new", "items": "data.orders"}),
        (
            "Http",
            {
                "url": "https://shop.example/orders",
                "cursor": {"parameter": "since", "path": "changed.at"},
                "idPath": "id",
                "next": "Link",
                "oauth2": {"tokenUrl": "https://shop.example/token"},
            },
        ),
        ("Random", {}),
    ],
)
def test_every_type_has_its_block(kind: str, block: dict[str, Any]) -> None:
    config = source_of(source_job(kind=kind, **{f"source__{kind.lower()}": block}))

    assert getattr(config.source, kind.lower()) is not None


@pytest.mark.parametrize("kind", SYSTEMS)
def test_what_a_resource_may_say_a_job_takes(kind: str) -> None:
    config = source_of(source_job(kind=kind, **{f"source__{kind.lower()}": SYSTEMS[kind]}))

    assert config.source.type == kind


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source__type": "Kafka"}, "source.type: Kafka is none of Postgres, Files"),
        ({"source__files": {"path": "/in"}}, "source.files: goes with type Files"),
        ({"kind": "Http"}, "source.http: goes with type Http, and type Http needs it"),
        ({"source__key": "a..b"}, r"\$.source.key"),
        ({"source__maxMessagesPerTrigger": 0}, r"\$.source.maxMessagesPerTrigger"),
        ({"source__random__rate": 0}, r"\$.source.random.rate"),
        ({"source__random__speed": 1}, "unknown field `speed`"),
        ({"source__trigger": {"interval": "soon"}}, "source.trigger.interval"),
        ({"source__errors": {"retry": {"timeout": "x"}}}, "source.errors.retry.timeout"),
        ({"source__errors": {"tolerance": "Data"}}, "unknown field `tolerance`"),
        ({"checkpoint": "data"}, "checkpoint: 'data' must be an absolute path"),
        ({"kind": "Files", "source__files": {"path": "in"}}, "source.files.path: 'in'"),
        ({"kind": "Files", "source__files": {"path": "/in", "s3": {"region": "x"}}}, "files.s3"),
        ({"kind": "Files", "source__files": {"path": "/in", "settle": "1 day"}}, "files.settle"),
    ],
)
def test_a_mistake_is_refused_by_its_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        source_of(source_job(**changes))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({**POSTGRES, "url": "postgresql://me:secret@db.example/shop"}, r"\$.source.postgres.url"),
        ({**POSTGRES, "url": "postgresql://db.example:5432"}, r"\$.source.postgres.url"),
        ({**POSTGRES, "tables": []}, r"\$.source.postgres.tables"),
        ({**POSTGRES, "tables": ["orders"]}, r"\$.source.postgres.tables\[0\]"),
        ({**POSTGRES, "tables": ["a.b", "a.b"]}, "postgres.tables: a table is there twice"),
        ({**POSTGRES, "slot": "With-Capitals"}, r"\$.source.postgres.slot"),
        ({**POSTGRES, "cursorColumn": "changed"}, "postgres.cursorColumn: goes with mode Polling"),
        ({**POSTGRES, "keyColumns": ["id"]}, "postgres.keyColumns: goes with mode Polling"),
        ({**POSTGRES, "mode": "Polling"}, "postgres.cursorColumn: .* which needs it"),
        ({**POLLING, "tables": ["a.b", "a.c"]}, "postgres.tables: mode Polling reads one"),
        ({**POLLING, "slot": "shop"}, "postgres.slot: goes with mode Changes"),
        ({**POLLING, "snapshot": True}, "postgres.snapshot: goes with mode Changes"),
        ({**POLLING, "settle": "-"}, "postgres.settle"),
    ],
)
def test_what_does_not_fit_in_a_postgres_block_is_refused(block: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        source_of(source_job(kind="Postgres", source__postgres=block))


def test_the_field_that_is_there_says_what_a_job_carries(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    value = source_job()
    sink = {"type": "Console"}
    kinds: dict[type, dict[str, Any]] = {
        SourceConfig: value,
        JobConfig: {name: value[name] for name in value if name != "source"} | {"sink": sink},
    }

    for kind, given in kinds.items():
        file.write_text(json.dumps(given))
        assert isinstance(job_file.load(file), kind)
    file.write_text(json.dumps(value | {"sink": sink}))
    with pytest.raises(OptionError, match="sink and source exclude each other"):
        job_file.load(file)
    with pytest.raises(OptionError, match="Expected `object`"):
        job_file.parse(b"[]", name="job.json")
