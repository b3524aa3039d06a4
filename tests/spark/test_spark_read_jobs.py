"""Whole jobs of the sources Files and Http: a real Spark, a real broker, a real store of objects
and a played service; killed, and gone on with.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

import dying_source_job
from iggy_spark.errors import DataLoss
from iggy_wire.primitives import partition_of_key
from object_store import ObjectStore
from played_feed import PlayedFeed, Shown
from source_folders import Folder, Prefix, content
from source_jobs import SourceSetup, arrived, once_each

if TYPE_CHECKING:
    from conftest import Topic


def numbers(topic: Topic) -> list[int]:
    """Of all messages, one that is there twice once."""
    return sorted(int(json.loads(found.payload)["number"]) for found in once_each(arrived(topic)))


@pytest.mark.timeout(600)
def test_files_of_a_store_survive_a_kill(
    spark: SparkSession, topic: Topic, store: ObjectStore, tmp_path: Path
) -> None:
    place = Prefix(store)
    for first in range(0, 200, 40):
        place.put(f"day/{first:03}", content("Json", range(first, first + 40)))
    block = {**place.block, "settle": "0s"}
    setup = SourceSetup(topic, tmp_path, type="Files", files=block, maxMessagesPerTrigger=30)

    dying_source_job.run(setup, "sent", 1)
    before = arrived(topic)
    place.put("day/late", content("Json", range(200, 210)))
    events = setup.run(spark)

    found = arrived(topic)
    assert 30 < len(before) < 100
    assert numbers(topic) == list(range(210))
    assert {message.id for message in before} <= {message.id for message in found}
    assert len(found) > len(once_each(found)) == 210
    assert (events[-1]["reason"], events[-1]["behind"]) == ("finished", 0)


@pytest.mark.timeout(600)
def test_a_file_that_vanished_from_a_plan_ends_the_job_until_it_is_there(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "in")
    folder.put("a", content("Json", range(9)))
    block = {**folder.block, "settle": "0s"}
    setup = SourceSetup(topic, tmp_path, type="Files", files=block, key="number")
    dying_source_job.run(setup, "planned", 0)
    file = folder.root / "a"
    kept_ns, data = file.stat().st_mtime_ns, file.read_bytes()
    folder.remove("a")

    with pytest.raises(DataLoss, match=r"files\.path: a was to be read, and is gone"):
        setup.run(spark)
    folder.put("a", data)
    os.utime(file, ns=(kept_ns, kept_ns))
    setup.run(spark)

    assert numbers(topic) == list(range(9))
    for message in arrived(topic):
        key = str(json.loads(message.payload)["number"]).encode()
        assert message.partition == partition_of_key(key, 2)


@pytest.mark.timeout(600)
def test_items_of_a_service_survive_a_kill_though_it_forgets_them(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    with PlayedFeed() as feed:
        shown = Shown(feed, cursor={"parameter": "after", "path": "number"}, idPath="number")
        shown.add(100)
        setup = SourceSetup(
            topic, tmp_path, type="Http", http=shown.block, maxMessagesPerTrigger=30
        )
        dying_source_job.run(setup, "sent", 1)
        before = arrived(topic)
        shown.add(10)
        feed.items = feed.items[60:]
        events = setup.run(spark)

    found = arrived(topic)
    assert len(before) == 60
    assert numbers(topic) == list(range(110))
    assert len(found) == 140, "the batch that was not written down came again"
    assert {message.id for message in before} <= {message.id for message in found}
    assert events[-1]["committed"]["cursor"] == 109
