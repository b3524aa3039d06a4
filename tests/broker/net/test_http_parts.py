"""The parts of HTTP that need no broker: sizes, paths, headers, tokens that are kept."""

from __future__ import annotations

import struct
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.net.http import bodies, reading, revocations, routing
from iggy_broker.net.http.limits import WRITES_MAX, WRITES_PER_TOKEN_MAX, InFlight
from iggy_broker.net.http.polled import headers_json
from iggy_broker.net.http.problems import Refusal
from iggy_broker.net.http.query import FIELDS_MAX, BadQuery
from iggy_broker.net.http.query import _pairs as query_pairs
from iggy_broker.net.http.revocations import Revoked, kept_revocations, kept_secret
from iggy_broker.net.http.routing import Route, Router, Success, allowed
from iggy_broker.net.http.sizes import size_text
from iggy_wire.options import pair_bytes


# The table of the HTTP API of Iggy 0.9, and where our units end.
@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1024, "1 KiB"), (1707, "1.707 KB"),
        (3789, "3.789 KB"), (61078, "61.078 KB"), (437500, "437.5 KB"), (1502636, "1502.636 KB"),
        (3670016, "3.5 MiB"), (4003320, "4003.32 KB"), (102600704, "100196 KiB"),
        (1 << 50, "1024 TiB"), (10**15, "1000 TB"),
    ],
)  # fmt: skip
def test_sizes_are_exact(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def routes(*lines: str) -> list[Route]:
    async def handler(call: object) -> object:
        return call

    made = [line.split(" ") for line in lines]
    return [Route(method, path, handler, "", Success()) for method, path in made]  # type: ignore[arg-type]


def test_fixed_segments_win_and_parameters_are_decoded() -> None:
    router = Router(routes("GET /a/{x}", "PUT /a/{x}", "POST /a/fixed", "GET /a/{x}/b/{y}"))

    assert allowed(router.find("/a/1")[0]) == "GET,HEAD,PUT"
    assert allowed(router.find("/a/fixed")[0]) == "POST"
    assert router.find("/a/%C3%BC%2F/b/..")[1] == ["ü/", ".."]
    for path in ("/a", "/a/", "/a/1/", "/a//b/1", "", "/a/fixed/b/1"):
        assert router.find(path)[0] == {}
    with pytest.raises(routing.UndecodableSegment):
        router.find("/a/%ff")


@pytest.mark.parametrize(
    ("block", "is_shown"),
    [
        (pair_bytes(2, b"a", 3, b"\x01"), True),
        (pair_bytes(2, b"a", 3, b"\x02"), False),
        (pair_bytes(2, b"\xff", 1, b"x"), False),
        (pair_bytes(9, b"1", 6, b"1234"), True),
        (pair_bytes(9, b"1", 6, b"123"), False),
        (pair_bytes(16, b"1", 1, b"1"), False),
        (pair_bytes(1, b"a", 1, b"b") * 2, False),
        (pair_bytes(1, b"a", 1, b"b")[:-1], False),
        (struct.pack("<BI", 1, 0), False),
        (struct.pack("<BI", 1, 0xFFFFFFFF) + b"x", False),
    ],
)
def test_headers_that_do_not_parse_are_shown_as_they_are(block: bytes, is_shown: bool) -> None:
    assert headers_json(block).startswith(b"[" if is_shown else b'"')


@pytest.mark.parametrize(
    ("kind", "is_json"),
    [
        ("application/json", True), ("Application/JSON ; charset=utf-8", True),
        ("application/vnd.iggy+json", True), ("text/json", False), ("application/jsonp", False),
        ("", False), ("application", False),
    ],
)  # fmt: skip
def test_what_counts_as_json(kind: str, is_json: bool) -> None:
    assert reading.is_json(kind) is is_json


SEND = b'{"partitioning":{"kind":"balanced","value":""},"messages":[%b]}'


@pytest.mark.parametrize(
    "messages",
    [
        b'{"payload":"eA==","payload":"eQ=="}', b'{"payload":"eA==","id":1,"id":2}',
        b'{"payload":"eA==","x":1,"x":2}', b'{"payload":"eA==","p\\u0061yload":"eQ=="}',
        b'{"payload":"eA==","user_headers":[{"key":{"kind":"raw","kind":"raw","value":"eA=="},'
        b'"value":{"kind":"raw","value":"eA=="}}]}',
    ],
)  # fmt: skip
def test_a_key_of_a_send_that_comes_twice_is_found(messages: bytes) -> None:
    with pytest.raises(bodies.BadBody, match="duplicate field"):
        bodies.decode(SEND % messages, bodies.SendMessages)


@pytest.mark.parametrize(
    "messages",
    [
        b'{"payload":"eA=="}', b'{ "payload" : "e\\/A=" , "id" : "7" }',
        b'{"payload":"eA==","more":{"payload":"x"}}', b'{"payload":"eA==","user_headers":null}',
    ],
)  # fmt: skip
def test_other_sends_are_read(messages: bytes) -> None:
    assert len(bodies.decode(SEND % messages, bodies.SendMessages).messages) == 1


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    made = kept_secret(tmp_path)

    assert kept_secret(tmp_path) == made
    (tmp_path / "runtime" / "jwt.key").write_bytes(made[:10])
    assert kept_secret(tmp_path) != made, "half a secret is none"
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        kept_secret(tmp_path / "file")


def test_what_was_revoked_is_kept_until_it_ends(tmp_path: Path) -> None:
    kept_secret(tmp_path)
    of_a_shard = revocations.Revocations(tmp_path, {}, clock=None)  # type: ignore[arg-type]
    for jti, exp in (("a", 100), ("b", 200), ("c", 300)):
        of_a_shard.keep(Revoked(jti, exp))
    with (tmp_path / "runtime" / "revoked_tokens").open("ab") as torn:
        torn.write(b'["revoked","d"')

    assert kept_revocations(tmp_path, now_s=150) == {"b": 200, "c": 300}
    assert kept_revocations(tmp_path, now_s=250) == {"c": 300}
    assert kept_revocations(tmp_path, now_s=300) == {}


def test_writes_have_limits_by_token_and_together() -> None:
    in_flight = InFlight()
    held = [in_flight.write("a") for _ in range(WRITES_PER_TOKEN_MAX)]
    for one in held:
        one.__enter__()

    with pytest.raises(Refusal, match="429"), in_flight.write("a"):
        pass
    others = [in_flight.write(str(number)) for number in range(WRITES_MAX - len(held))]
    for one in others:
        one.__enter__()
    with pytest.raises(Refusal, match="503"), in_flight.write("b"):
        pass
    for one in held + others:
        one.__exit__(None, None, None)
    with in_flight.write("a"):
        pass


@given(st.text("ab=&;+%1\udcff ü", max_size=12))
def test_a_query_is_read_as_the_standard_library_reads_it(query: str) -> None:
    try:
        expected = parse_qsl(query, keep_blank_values=True, errors="strict")
    except ValueError:
        with pytest.raises(BadQuery):
            query_pairs(query)
    else:
        assert query_pairs(query) == expected


def test_a_query_has_so_many_parameters_at_most() -> None:
    for separator in ("a=1", "a=%31"):
        assert len(query_pairs("&".join([separator] * FIELDS_MAX))) == FIELDS_MAX
        with pytest.raises(BadQuery):
            query_pairs("&".join([separator] * (FIELDS_MAX + 1)))
