"""Sink Quickwit against a played one: what every sink promises, and what its ingest API needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.sinks import quickwit
from iggy_spark.sinks.quickwit import QuickwitSink
from played_server import LOST, Reply
from played_targets import Document, PlayedQuickwit
from quick_retry import quick
from sink_cases import INCARNATION, PlayedTask, declare, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target

CONFIG = "version: 0.8\nindex_id: orders\ndoc_mapping:\n  mode: dynamic\n"


class QuickwitTarget:
    """An index that the sink makes."""

    def __init__(self, server: PlayedQuickwit, *, seconds: float = 20.0, **block: Any) -> None:
        self.server, self.seconds = server, seconds
        self.block = {"index_config": CONFIG, **block}

    def sink(self) -> QuickwitSink:
        block = blocks.Quickwit(**{"url": self.server.url, "index": "orders", **self.block})
        return QuickwitSink(block, declare(), retry=quick(self.seconds))

    def rows(self) -> list[Row]:
        found = self.server.indexes.get("orders", [])
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)

    def refusing(self) -> Target:
        def judge(document: Document) -> str | None:
            return "amount: expected u64" if document["iggy_offset"] == REFUSED else None

        self.server.judge = judge
        return self

    def away(self) -> Target:
        self.server.faults += [Reply(503)] * 1000
        return QuickwitTarget(self.server, seconds=0.2)


@pytest.fixture
def server() -> Iterator[PlayedQuickwit]:
    with PlayedQuickwit() as running:
        yield running


@pytest.fixture
def target(server: PlayedQuickwit) -> QuickwitTarget:
    return QuickwitTarget(server)


class TestContract(SinkContract):
    """What every sink promises."""


def write(target: QuickwitTarget, end: int = 6, *, size: int = 3) -> PlayedTask:
    task = PlayedTask()
    span = wanted(0, end)
    sink = target.sink()
    sink.prepare(INCARNATION)
    written = sink.write_task(span, portions(span, size=size), task)
    assert written.rows == end - len(task.refusals)
    return task


def test_a_missing_index_is_made_once(server: PlayedQuickwit, target: QuickwitTarget) -> None:
    write(target)
    write(target)

    assert server.configurations == [CONFIG.encode()]


def test_without_a_configuration_a_missing_index_is_told(server: PlayedQuickwit) -> None:
    target = QuickwitTarget(server, index_config=None)

    with pytest.raises(OptionError, match=r"quickwit\.index: orders does not exist: make it"):
        target.sink().check()

    server.indexes["orders"] = []
    target.sink().check()


def test_a_configuration_that_quickwit_does_not_understand(server: PlayedQuickwit) -> None:
    target = QuickwitTarget(server, index_config="index_id: orders\n")

    with pytest.raises(OptionError, match=r"quickwit\.indexConfig: .*missing field"):
        target.sink().prepare(INCARNATION)


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"index_config": "index_id: other\n"}, r"quickwit\.indexConfig: index_id must be orders"),
        ({"index": "a/b", "index_config": None}, r"quickwit\.index: 'a/b'"),
    ],
)
def test_settings_that_cannot_be(block: dict[str, Any], field: str, server: PlayedQuickwit) -> None:
    with pytest.raises(OptionError, match=field):
        QuickwitTarget(server, **block).sink()


def test_documents_that_are_refused_are_read_from_the_reply(
    server: PlayedQuickwit, target: QuickwitTarget
) -> None:
    task = write(target.refusing())  # type: ignore[arg-type]

    (refusal,) = task.refusals
    assert (refusal.offset, refusal.kind) == (REFUSED, "invalid_schema")
    assert refusal.message == "amount: expected u64"
    assert len(server.sent()) == 2  # one for each portion: nothing was sent again


def test_refused_documents_that_are_not_named_stop_the_task(
    server: PlayedQuickwit, target: QuickwitTarget
) -> None:
    server.tells = False

    with pytest.raises(SinkError, match="refuses 1 documents and does not say which"):
        write(target.refusing())  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", [Reply(429), Reply(503), Reply(404), Reply(200, b"hello"), LOST])
def test_an_outage_is_waited_for(
    fault: Reply | str, server: PlayedQuickwit, target: QuickwitTarget
) -> None:
    server.faults += [fault] * 3

    task = write(target, 3)

    assert sorted(set(target.rows())) == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []


def test_requests_have_a_size(
    server: PlayedQuickwit, target: QuickwitTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickwit, "INGEST_BYTES_MAX", 500)

    write(target, 6, size=6)

    assert len(server.sent()) > 1
    assert all(len(request.body) <= 500 for request in server.sent())
    assert target.rows() == [(0, offset) for offset in range(6)]


def test_the_login_is_a_token(server: PlayedQuickwit, tmp_path: Path) -> None:
    server.login = "Bearer t"
    target = QuickwitTarget(server, credentials_path=str(tmp_path))
    with pytest.raises(OptionError, match=r"quickwit\.credentialsPath: .* answers 401"):
        target.sink().check()

    (tmp_path / "token").write_text("t\n")
    write(target)
