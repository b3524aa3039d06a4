"""The sinks that the pages of web services show, as an operator hands them over, do write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import job_config
from iggy_spark.sinks import registry
from played_server import PlayedServer
from played_targets import PlayedElasticsearch, PlayedQuickwit, PlayedService, PlayedTokens
from quick_retry import quick
from shown_sinks import shown
from sink_cases import INCARNATION, PlayedTask, portions, wanted

CLIENT = "Basic YzpzZWNyZXQ="  # c:secret
VALUE = {"id": 7, "customer": "c", "amount": "7.25", "ts": "2026-12-31T10:00:00Z"}
Arrived = Callable[[Any], list[Any]]


def login(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_text({"clientId": "c", "clientSecret": "secret"}.get(name, "k"))
    return str(folder)


def written(value: dict[str, Any], folder: Path) -> None:
    """Check and write three messages with the sink of a job's file."""
    value = {**value, "checkpoint": str(folder), "checkpointStore": {}}
    file = folder / "job.json"
    file.write_text(json.dumps(value))
    config = job_config.load(file)
    sink = registry.build(config, show=lambda line: None, retry=quick())
    sink.check()
    sink.prepare(INCARNATION)
    span = wanted(0, 3)
    made = lambda number: json.dumps(VALUE).encode()  # noqa: E731
    task = PlayedTask()
    done = sink.write_task(span, portions(span, payload=config.payload, made=made), task)
    assert (done.rows, task.refusals, task.confirmed) == (3, [], 1)


def reached(value: dict[str, Any], block: str, server: PlayedServer, folder: str) -> dict[str, Any]:
    """The same sink where the server and the login are those of the test."""
    chosen = value["sink"][block] | {"credentialsPath": folder}
    chosen.pop("caPath", None)
    chosen |= {"urls": [server.url]} if "urls" in chosen else {"url": server.url}
    return {**value, "sink": {**value["sink"], block: chosen}}


@pytest.mark.parametrize("page", ["elasticsearch", "quickwit", "http"])
def test_the_sink_of_a_page_writes(page: str, tmp_path: Path) -> None:
    value = shown(page, tmp_path)
    if page == "elasticsearch":
        with PlayedElasticsearch() as search:
            search.login = "ApiKey k"
            written(reached(value, page, search, login(tmp_path, "apiKey")), tmp_path)
            assert list(search.indexes) == ["orders-2026.12"]
    elif page == "quickwit":
        with PlayedQuickwit() as quickwit:
            written(reached(value, page, quickwit, str(tmp_path)), tmp_path)
            assert [one["iggy_offset"] for one in quickwit.indexes["orders"]] == [0, 1, 2]
    else:
        with PlayedTokens(CLIENT) as tokens, PlayedService() as service:
            service.login = "Bearer t1"
            folder = login(tmp_path, "clientId", "clientSecret")
            value["sink"]["http"]["oauth2"]["tokenUrl"] = tokens.url
            written(reached(value, page, service, folder), tmp_path)
            assert [one["payload"] for one in service.messages] == [VALUE] * 3
            assert tokens.scope == ["orders.write"]
