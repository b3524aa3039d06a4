"""The sources that the pages show: each is one that a job takes, and Random's runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from iggy_spark import source_config, write_options
from iggy_spark.sources import registry
from page_samples import ROOT, blocks
from quick_retry import quick
from sink_jobs import LOGIN
from source_files import source_job, source_of
from source_jobs import SourceSetup, arrived

if TYPE_CHECKING:
    from conftest import Topic

PAGES = sorted((ROOT / "docs" / "sources").glob("*.md"))
SENT = 40


def shown(page: Path) -> list[dict[str, Any]]:
    """All sources of a page's samples."""
    place = str(page.relative_to(ROOT))
    documents = [
        document
        for sample in blocks()
        if sample.place.startswith(place)
        for document in sample.documents()
    ]
    topics = [one["spec"] for one in documents if one["kind"] == "IggyTopic"]
    own = [one["spec"] for one in documents if one["kind"] == "IggySource"]
    return [source for topic in topics for source in topic.get("sources", [])] + own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_job_takes_the_source_of_a_page(page: Path) -> None:
    found = shown(page)

    assert found, "a page needs a sample"
    for source in found:
        config = source_of(source_job(source=source))
        assert config.source.type.lower() == page.stem
        registry.build(config, retry=quick()).close()


def test_the_job_file_of_the_page_is_one() -> None:
    text = (ROOT / "docs" / "sources.md").read_text()
    (block,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    config = source_config.parse(block.encode(), name="the page")

    assert write_options.parse(source_config.writer_options(config, LOGIN)).topic == "orders"


def test_the_random_source_of_its_page_runs(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    page = ROOT / "docs" / "sources" / "random.md"
    (message,) = re.findall(r"^```json\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (source,) = shown(page)
    source["random"]["messages"] = SENT
    setup = SourceSetup(topic, tmp_path, **source)

    setup.run(spark)

    found = [json.loads(one.payload) for one in arrived(topic)]
    assert sorted(value["number"] for value in found) == list(range(SENT))
    assert {tuple(value) for value in found} == {tuple(json.loads(message))}
