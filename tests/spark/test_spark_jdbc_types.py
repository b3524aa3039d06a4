"""Types that the server makes of ours, tables with row level security, and what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jdbc_cases import Scene, ready
from postgres import Postgres
from sink_cases import wanted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sinks" / "jdbc.md"
UUID = "6f1e7a9e-3f0f-4b42-9d3d-1c5b0f0c5a11"
# Type of the field, type of the column, value in the message, text of the value in the table.
TYPES = [
    ("STRING", "uuid", UUID.upper(), UUID),
    ("STRING", "json", '{"a": 1}', '{"a": 1}'),
    ("STRING", "jsonb", '{"b":2,"a":1}', '{"a": 1, "b": 2}'),
    ("STRING", "xml", "<a/>", "<a/>"),
    ("STRING", "inet", "10.0.0.1", "10.0.0.1/32"),
    ("STRING", "cidr", "10.0.0.0/8", "10.0.0.0/8"),
    ("STRING", "macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:03"),
    ("STRING", "varchar(9)", "\u20ac" * 9, "\u20ac" * 9),
    ("STRING", "char(3)", "ab", "ab"),
    ("STRING", "{schema}.short", "abc", "abc"),
    ("STRING", "{schema}.id", UUID, UUID),
    ("SMALLINT", "int8", -5, "-5"),
    ("BIGINT", "int2", 5, "5"),
    ("BIGINT", "numeric(5,2)", 5, "5.00"),
    ("FLOAT", "float8", 1.5, "1.5"),
    ("DECIMAL(9,2)", "numeric", "7.50", "7.50"),
    ("DECIMAL(9,2)", "numeric(12,4)", "-7.50", "-7.5000"),
    ("TIMESTAMP", "timestamp", "2026-03-29T01:00:00+02:00", "2026-03-28 23:00:00"),
    ("ARRAY<INT>", "json", [1, None], "[1, null]"),
    ("STRUCT<a: STRING>", "text", {"a": "b"}, '{"a": "b"}'),
    ("MAP<STRING, INT>", "jsonb", {"bb": 1, "a": None}, '{"a": null, "bb": 1}'),
    ("MAP<STRING, INT>", "json", {}, "{}"),
    ("MAP<INT, DECIMAL(9,2)>", "text", {"7": "1.50"}, '{"7": 1.50}'),
    ("ARRAY<MAP<STRING, INT>>", "jsonb", [{"a": 1}, None], '[{"a": 1}, null]'),
]


@pytest.fixture
def scene(postgres: Postgres) -> Scene:
    return Scene(postgres)


def test_values_in_columns_of_other_types(scene: Scene) -> None:
    scene.run(
        f"create domain {scene.schema}.short as varchar(3)",
        f"create domain {scene.schema}.id as uuid check (value <> '{UUID[:-1]}2')",
    )
    columns = [column.format(schema=scene.schema) for _, column, _, _ in TYPES]
    scene.make(", ".join(f"c{n} {column}" for n, column in enumerate(columns)))
    schema = ", ".join(f"c{n} {field}" for n, (field, _, _, _) in enumerate(TYPES))
    sink = ready(scene.sink(schema))
    values = {f"c{n}": value for n, (_, _, value, _) in enumerate(TYPES)}
    documents = [json.dumps(values).encode(), b"{}"]

    _, task = scene.carry(sink, wanted(0, 2), lambda n: documents[n], schema=schema)

    texts = ", ".join(f"c{n}::text" for n in range(len(TYPES)))
    full, empty = scene.run(f"select {texts} from {scene.table} order by c0 nulls last")
    assert list(full) == [text for _, _, _, text in TYPES]
    assert empty == (None,) * len(TYPES)
    assert task.refusals == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("{schema}.short", "abcd"), ("{schema}.id", UUID[:-1] + "2"), ("char(3)", "abcd")],
)
def test_a_domain_has_its_say(scene: Scene, column: str, value: str) -> None:
    scene.run(
        f"create domain {scene.schema}.short as varchar(3)",
        f"create domain {scene.schema}.id as uuid check (value <> '{UUID[:-1]}2')",
    )
    scene.make(f"c {column.format(schema=scene.schema)}")
    sink = ready(scene.sink("c STRING"))
    made = json.dumps({"c": value}).encode()

    _, task = scene.carry(sink, wanted(0, 1), lambda n: made, schema="c STRING")

    assert [bad.offset for bad in task.refusals] == [0]
    assert scene.run(f"select * from {scene.table}") == []


def limited(scene: Scene, folder: Path, rights: str) -> dict[str, Any]:
    """The login of a user who may write this table."""
    user = f"user_{scene.schema}"
    for name, value in (("username", user), ("password", "p")):
        (folder / name).write_text(value)
    ready(scene.sink())
    scene.run(
        f"create role {user} login password 'p'",
        f"grant usage on schema {scene.schema} to {user}",
        f"grant {rights} on {scene.table} to {user}",
        f"grant select, insert, update on {scene.schema}.iggy_sink_offsets to {user}",
    )
    return {"credentialsPath": str(folder)}


def test_row_level_security_is_obeyed(scene: Scene, tmp_path: Path) -> None:
    block = limited(scene, tmp_path, "insert")
    scene.run(
        f"alter table {scene.table} enable row level security",
        f"create policy few on {scene.table} for insert with check (iggy_offset < 5)",
    )
    sink = ready(scene.sink(**block))

    _, task = scene.carry(sink, wanted(0, 8))

    assert [(bad.offset, bad.kind) for bad in task.refusals] == [(n, "42501") for n in (5, 6, 7)]
    assert scene.offsets() == [0, 1, 2, 3, 4]


def test_the_rights_that_the_page_names_are_enough_for_upsert(scene: Scene, tmp_path: Path) -> None:
    keys = {"mode": "Upsert", "keyColumns": ["number"]}
    ready(scene.sink(**keys))
    block = limited(scene, tmp_path, "insert, update, select")

    scene.carry(ready(scene.sink(**keys, **block)), wanted(0, 4))

    assert scene.offsets() == [0, 1, 2, 3]


def test_the_statement_of_the_page_makes_what_the_sink_needs(scene: Scene) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scene.run(statement.replace("sales.", f"{scene.schema}."))
    by_hand = columns(scene)
    scene.run(f"drop table {scene.schema}.iggy_sink_offsets")

    ready(scene.sink())

    assert columns(scene) == by_hand


def columns(scene: Scene) -> list[tuple[Any, ...]]:
    return scene.run(
        "select column_name, data_type, is_nullable, column_default from "
        f"information_schema.columns where table_schema = '{scene.schema}' "
        "and table_name = 'iggy_sink_offsets' order by ordinal_position"
    )
