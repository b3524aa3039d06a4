"""Sink Elasticsearch on a real OpenSearch, where somebody has one: OPENSEARCH_URL=http://host:9200

It may be anything that can be thrown away: indexes `iggykube-*` are made and deleted.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks.elasticsearch import ElasticsearchSink
from quick_retry import quick
from sink_cases import PlayedTask, declare, portions, wanted
from sink_contract import Row, SinkContract, Target

URL = os.environ.get("OPENSEARCH_URL", "")
_numbers = itertools.count()

pytestmark = pytest.mark.skipif(not URL, reason="OPENSEARCH_URL names no OpenSearch")


class OpenSearchTarget:
    """An index of its own. What is there is asked from the server."""

    def __init__(self, *, seconds: float = 20.0, **block: Any) -> None:
        self.index = f"iggykube-{os.getpid()}-{next(_numbers)}"
        self.seconds = seconds
        self.block = block

    def sink(self, payload: Payload | None = None) -> ElasticsearchSink:
        where = {"urls": [URL], "index": self.index}
        block = blocks.Elasticsearch(**{**where, **self.block})
        return ElasticsearchSink(block, payload or declare(), retry=quick(self.seconds))

    def make(self, **mapping: str) -> None:
        fields = {name: {"type": kind} for name, kind in mapping.items()}
        self.ask("PUT", "", {"mappings": {"properties": fields}})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        several = "" if method == "PUT" else "*"  # an index, or all those by time
        return httpx.request(method, f"{URL}/{self.index}{several}{path}", json=body).json()

    def rows(self) -> list[Row]:
        self.ask("POST", "/_refresh")
        found = self.ask("POST", "/_search", {"size": 1000})["hits"]["hits"]
        places = [one["_source"] for one in found]
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in places)

    def refusing(self) -> str:
        return "a mapping refuses kinds of values, and here all are of one; a test below has others"

    def away(self) -> Target:
        return OpenSearchTarget(seconds=0.2, urls=["http://127.0.0.1:9"])


@pytest.fixture
def target() -> Iterator[OpenSearchTarget]:
    made = OpenSearchTarget()
    yield made
    made.ask("DELETE", "")


class TestContract(SinkContract):
    """What every sink promises."""


class TestContractOfCreate(SinkContract):
    """The same, where documents are never replaced, in indexes by time."""

    @pytest.fixture
    def target(self) -> Iterator[Target]:
        made = OpenSearchTarget(op_type="Create")
        made.block["index"] = made.index + "-{timestamp:%Y.%m}"
        yield made
        made.ask("DELETE", "")


def test_refused_documents_are_told_with_the_servers_words(target: OpenSearchTarget) -> None:
    target.make(a="long")
    values = [b'{"a": 1}', b'{"a": "x"}', b'{"a": 3}', b'{"a": {"b": 1}}']
    task = PlayedTask()
    span = wanted(0, 4)
    payload = declare(text=None)
    found = portions(span, payload=payload, made=lambda number: values[number])

    done = target.sink(payload).write_task(span, found, task)

    assert target.rows() == [(0, 0), (0, 2)]
    assert done.rows == 2
    assert [one.offset for one in task.refusals] == [1, 3]
    assert {one.kind for one in task.refusals} <= {
        "mapper_parsing_exception", "document_parsing_exception"
    }  # fmt: skip
    assert "failed to parse field [a]" in task.refusals[0].message


def test_an_index_that_is_blocked_is_no_bad_message(target: OpenSearchTarget) -> None:
    target.make(a="long")
    target.ask("PUT", "/_settings", {"index.blocks.read_only": True})
    task = PlayedTask()
    span = wanted(0, 2)

    with pytest.raises(SinkError, match=r"elasticsearch\.index: .*403.*blocked"):
        target.sink().write_task(span, portions(span), task)

    assert task.refusals == []
    target.ask("PUT", "/_settings", {"index.blocks.read_only": False})


def test_a_data_stream_takes_create_only(target: OpenSearchTarget) -> None:
    template = {"index_patterns": [target.index], "data_stream": {}}
    httpx.put(f"{URL}/_index_template/{target.index}", json=template)
    httpx.put(f"{URL}/_data_stream/{target.index}")
    try:
        with pytest.raises(OptionError, match=r"elasticsearch\.opType: .* is a data stream"):
            target.sink().check()
        target.block["op_type"] = "Create"
        target.sink().check()
        payload = declare(text=None)
        span = wanted(0, 3)
        made = lambda number: b'{"@timestamp": "2026-12-31T10:00:00.123456Z"}'  # noqa: E731
        for _ in range(2):
            found = portions(span, payload=payload, made=made)
            task = PlayedTask()
            done = target.sink(payload).write_task(span, found, task)
            assert (done.rows, task.refusals) == (3, [])
        assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    finally:
        httpx.delete(f"{URL}/_data_stream/{target.index}")
        httpx.delete(f"{URL}/_index_template/{target.index}")
