"""Messages change their schema on the way, and so does the declaration: every message is written or
set aside, and a change that would mix rows of two kinds is refused by the field's name.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import letters
from iggy_spark.errors import EXIT_CONFIGURATION, OptionError
from sink_jobs import Setup

if TYPE_CHECKING:
    from conftest import Topic

DECLARED = "id BIGINT NOT NULL, at TIMESTAMP, note STRING"
MESSAGES: list[tuple[dict[str, Any], str]] = [  # and the field for which it is set aside
    ({"id": 0, "at": "2026-03-29T01:00:00Z", "note": "as declared"}, ""),
    ({"id": "1", "note": "id is text"}, "$.id"),
    ({"note": "id is missing"}, "`id`"),
    ({"id": 3, "note": "a new field", "more": True}, ""),
    ({"id": 4, "note": {"is": "an object"}}, "$.note"),
    ({"id": 5, "at": 1_774_746_000, "note": "at is a number"}, "$.at"),
    ({"id": 6, "at": "2026-03-29T03:00:00+02:00", "note": "at has an offset"}, ""),
]


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> Setup:
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
    made = Setup(topic, tmp_path, errors=errors)
    made.value["sink"]["files"] = {"path": str(made.lake)}
    made.value["sink"]["payload"]["schema"] = DECLARED
    return made


def rows(setup: Setup) -> list[dict[str, Any]]:
    """Each file by itself: they have different columns."""
    files = sorted(setup.lake.glob("*.parquet"))
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: int(row["iggy_offset"]))


def test_no_message_vanishes_whatever_its_fields_have_become(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, [json.dumps(message).encode() for message, _ in MESSAGES])

    events = setup.run(spark)

    good = [offset for offset, (_, field) in enumerate(MESSAGES) if not field]
    assert [row["iggy_offset"] for row in rows(setup)] == good
    assert [(row["id"], row["note"]) for row in rows(setup)] == [
        (MESSAGES[offset][0]["id"], MESSAGES[offset][0]["note"]) for offset in good
    ]
    instant = dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)
    assert [row["at"] for row in rows(setup)] == [instant, None, instant]
    told = {headers["iggy.dlq.offset"]: headers["iggy.dlq.error"] for _, headers in letters(topic)}
    bad = {offset: field for offset, (_, field) in enumerate(MESSAGES) if field}
    assert told.keys() == bad.keys()
    assert all(field in str(told[offset]) for offset, field in bad.items())
    (done,) = (event for event in events if event["event"] == "progress")
    assert done["rows"] + done["dead"] == len(MESSAGES)


def test_a_declaration_may_grow_and_cannot_change_a_field(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    payload = setup.value["sink"]["payload"]
    topic.send(0, [json.dumps(MESSAGES[0][0]).encode()])
    setup.run(spark)
    topic.send(0, [json.dumps(MESSAGES[3][0]).encode()])

    for other, was in (("note STRUCT<is: STRING>", "STRING"), ("at BIGINT", "TIMESTAMP")):
        field = other.split()[0]
        kept = [part for part in DECLARED.split(", ") if not part.startswith(field)]
        payload["schema"] = ", ".join((*kept, other))
        with pytest.raises(OptionError, match=f"field '{field}' was {was} and is ") as refused:
            setup.run(spark)
        assert refused.value.exit_code == EXIT_CONFIGURATION
        assert len(rows(setup)) == 1
    payload["schema"] = f"{DECLARED}, more BOOLEAN"
    setup.run(spark)

    assert [(row["id"], row.get("more")) for row in rows(setup)] == [(0, None), (3, True)]
    assert topic.stored("lake", 0) == 1
    assert letters(topic) == []
