"""Sink Http against a played service: what every sink promises, bodies, logins, bad messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import http
from iggy_spark.sinks.http import HttpSink
from played_server import LOST, SILENT, Reply
from played_targets import PlayedService
from quick_retry import quick
from sink_cases import INCARNATION, PlayedTask, declare, document, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target

BODIES = ("Individual", "NdJson", "JsonArray")


class HttpTarget:
    """A service that gets messages with their places."""

    def __init__(self, server: PlayedService, *, seconds: float = 20.0, **block: Any) -> None:
        self.server, self.seconds = server, seconds
        self.block = {"metadata": True, **block}

    def sink(self, payload: Payload | None = None) -> HttpSink:
        block = blocks.Http(**{"url": self.server.url + "/in?key=secret", **self.block})
        return HttpSink(block, payload or declare(), name="shop/hook", retry=quick(self.seconds))

    def rows(self) -> list[Row]:
        places = [message["metadata"] for message in self.server.messages]
        return sorted((place["partition"], place["offset"]) for place in places)

    def refusing(self) -> Target:
        self.server.judge = lambda message: (
            422 if message["metadata"]["offset"] == REFUSED else None
        )
        return self

    def away(self) -> Target:
        self.server.faults += [Reply(503)] * 1000
        return HttpTarget(self.server, seconds=0.2)


@pytest.fixture
def server() -> Iterator[PlayedService]:
    with PlayedService() as running:
        yield running


class TestContract(SinkContract):
    """What every sink promises, with each kind of body that can tell places."""

    @pytest.fixture(params=BODIES)
    def target(self, server: PlayedService, request: pytest.FixtureRequest) -> HttpTarget:
        return HttpTarget(server, body=request.param)


def write(
    server: PlayedService,
    end: int = 6,
    *,
    payload: Payload | None = None,
    made: Callable[[int], bytes] = document,
    size: int = 3,
    **block: Any,
) -> PlayedTask:
    task = PlayedTask()
    span = wanted(0, end)
    target = HttpTarget(server, **{"metadata": False, **block})
    found = portions(span, payload=payload, made=made, size=size)
    written = target.sink(payload).write_task(span, found, task)
    assert written.rows == end - len(task.refusals)
    return task


def keys(server: PlayedService) -> list[str]:
    return [request.headers["Idempotency-Key"] for request in server.sent()]


def test_messages_are_sent_as_they_are_declared(server: PlayedService) -> None:
    write(server, 2)

    assert server.messages[0] == {
        "number": 0, "month": 1, "customer": "c0", "amount": 0.25, "at": None
    }  # fmt: skip
    assert [request.path for request in server.seen] == ["/in?key=secret"]


def test_an_envelope_tells_where_a_message_was(server: PlayedService) -> None:
    write(server, 1, metadata=True)

    (message,) = server.messages
    assert message["metadata"] == {
        "stream": "shop",
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": "2026-12-31T23:59:59.999999Z",
        "id": f"{1:032x}",
        "headers": {},
    }
    assert message["payload"]["customer"] == "c0"


@pytest.mark.parametrize(
    ("body", "count", "kind"),
    [
        ("Individual", 3, "application/json"),
        ("NdJson", 1, "application/x-ndjson"),
        ("JsonArray", 1, "application/json"),
    ],
)
def test_bodies(body: str, count: int, kind: str, server: PlayedService) -> None:
    write(server, 3, body=body, method="PUT")

    assert [message["number"] for message in server.messages] == [0, 1, 2]
    assert [one.headers["Content-Type"] for one in server.sent()] == [kind] * count
    assert {request.method for request in server.sent()} == {"PUT"}


@pytest.mark.parametrize(
    ("payload", "text", "kind"),
    [
        (declare("Raw", None), b"\x00\xff", "application/octet-stream"),
        (declare("Text", None), "caf\u00e9".encode(), "text/plain; charset=utf-8"),
    ],
)
def test_a_raw_body_is_the_payload(
    payload: Payload, text: bytes, kind: str, server: PlayedService
) -> None:
    write(server, 1, payload=payload, made=lambda number: text, body="Raw")

    assert [request.body for request in server.sent()] == [text]
    assert server.sent()[0].headers["Content-Type"] == kind


def test_text_is_a_string(server: PlayedService) -> None:
    write(server, 1, payload=declare("Text", None), made=lambda number: b'say "hi"')

    assert server.messages == ['say "hi"']


def test_a_request_has_the_key_of_its_range(server: PlayedService) -> None:
    write(server, 5)

    assert keys(server) == [
        f"shop%2Fhook-{INCARNATION}-0-0-2",
        f"shop%2Fhook-{INCARNATION}-0-3-4",
    ]


@pytest.mark.parametrize("fault", [Reply(503), Reply(429), Reply(408), Reply(425), LOST])
def test_a_request_that_is_sent_again_has_the_same_key(
    fault: Reply | str, server: PlayedService
) -> None:
    server.faults.append(fault)

    task = write(server, 3)

    assert len(set(keys(server))) == 1
    assert len(keys(server)) == 2
    assert task.refusals == []


def test_a_service_that_is_too_slow_is_asked_again(server: PlayedService) -> None:
    server.faults.append(SILENT)

    write(server, 3, timeout="100ms")

    assert len(server.messages) == 3


def test_one_bad_message_of_a_hundred_is_found_by_halves(server: PlayedService) -> None:
    for bad in (0, 37, 99):
        server.messages.clear()
        server.refused = 0

        def judge(message: Any, bad: int = bad) -> int | None:
            return 400 if message["number"] == bad else None

        server.judge = judge

        task = write(server, 100, size=100)

        assert [(one.offset, one.kind) for one in task.refusals] == [(bad, "Status400")]
        assert task.refusals[0].message.startswith("400 cannot take it")
        assert server.refused <= 8
        assert [message["number"] for message in server.messages] == [
            number for number in range(100) if number != bad
        ]


def test_order_is_kept_around_bad_messages(server: PlayedService) -> None:
    server.judge = lambda message: 422 if message["number"] % 7 == 3 else None

    task = write(server, 50, size=20)

    expected = [number for number in range(50) if number % 7 != 3]
    assert [message["number"] for message in server.messages] == expected
    assert [one.offset for one in task.refusals] == [n for n in range(50) if n % 7 == 3]


def test_a_body_that_is_too_large_is_halved(server: PlayedService) -> None:
    server.faults += [Reply(413)]

    task = write(server, 3)

    assert [len(request.body.splitlines()) for request in server.sent()] == [3, 1, 2]
    assert task.refusals == []


def test_bodies_have_a_size(server: PlayedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_BYTES_MAX", 300)
    monkeypatch.setattr(http, "BODY_ROWS_MAX", 3)

    write(server, 10, size=10)

    assert all(len(request.body.splitlines()) <= 3 for request in server.sent())
    assert all(len(request.body) <= 300 + 100 for request in server.sent())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, r"http\.credentialsPath: .* answers 401"),
        (403, r"http\.credentialsPath: .* answers 403"),
        (405, r"http\.url: .* answers 405 to POST"),
        (302, r"http: .* sends on to"),
    ],
)
def test_settings_that_a_service_does_not_like_are_no_bad_messages(
    status: int, words: str, server: PlayedService
) -> None:
    server.faults += [Reply(status)] * 2
    task = PlayedTask()
    span = wanted(0, 3)

    with pytest.raises(SinkError, match=words) as error:
        HttpTarget(server).sink().write_task(span, portions(span), task)

    assert task.refusals == []
    assert "secret" not in str(error.value)


def test_only_some_codes_may_be_success(server: PlayedService) -> None:
    server.status = 202
    write(server, 3, success_codes=[202])
    target = HttpTarget(server, success_codes=[200], seconds=0.2)
    span = wanted(0, 3)

    with pytest.raises(SinkError, match=r"answers 202, which is not in http\.successCodes"):
        target.sink().write_task(span, portions(span), PlayedTask())


def test_headers_of_the_settings_are_sent(server: PlayedService) -> None:
    write(server, 1, headers={"x-team": "shop", "content-type": "application/json"}, body="NdJson")

    assert server.sent()[0].headers["x-team"] == "shop"
    assert server.sent()[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("block", "payload", "field"),
    [
        ({"headers": {"Authorization": "x"}}, declare(), r"http\.headers: Authorization"),
        ({"headers": {"x": "a\r\nb"}}, declare(), r"http\.headers"),
        ({"body": "Raw", "metadata": True}, declare("Raw", None), r"http\.metadata"),
        ({"body": "Raw"}, declare(), r"http\.body: Raw sends payloads unchanged"),
        ({"body": "NdJson"}, declare("Raw", None), r"http\.body: NdJson is made of JSON"),
        ({"success_codes": [404]}, declare(), r"http\.successCodes"),
        ({"timeout": "soon"}, declare(), r"http\.timeout"),
        ({"timeout": "0s"}, declare(), r"http\.timeout"),
    ],
)
def test_settings_that_cannot_be(
    block: dict[str, Any], payload: Payload, field: str, server: PlayedService
) -> None:
    with pytest.raises(OptionError, match=field):
        HttpTarget(server, **{"metadata": False, **block}).sink(payload)


def test_the_check_needs_an_answer_and_nothing_more(server: PlayedService, tmp_path: Path) -> None:
    server.login = "Bearer t"
    HttpTarget(server).sink().check()
    assert [request.method for request in server.seen] == ["HEAD"]

    with PlayedService() as gone:
        pass
    with pytest.raises(SinkError, match=gone.url) as error:
        HttpTarget(gone, seconds=600).sink().check()
    assert "secret" not in str(error.value)


def test_documents_without_a_schema_pass_unchanged(server: PlayedService) -> None:
    text = '{"a": 1.50, "b": [1, {"c": null}]}'

    write(server, 1, payload=declare(text=None), made=lambda number: text.encode(), body="Raw")
    write(server, 1, payload=declare(text=None), made=lambda number: text.encode())

    assert server.sent()[0].body == text.encode()
    assert server.messages == [json.loads(text)] * 2
