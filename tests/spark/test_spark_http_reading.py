"""The source Http: which items are new, what a service must keep to, and what is said if not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest

from iggy_spark.errors import OffsetFormatError, OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import web
from iggy_spark.sources import http, http_items
from iggy_spark.sources.base import Position
from iggy_spark.sources.http import HttpListing, HttpSource
from played_feed import PlayedFeed, Shown
from played_server import LOST, Reply
from quick_retry import quick
from source_contract import ALL, through_json

CURSOR = {"cursor": {"parameter": "after", "path": "number"}}
Sent = list[tuple[bytes, Any]]


@pytest.fixture
def feed() -> Iterator[PlayedFeed]:
    with PlayedFeed() as running:
        yield running


@pytest.fixture
def shown(feed: PlayedFeed) -> Iterator[Shown]:
    made = Shown(feed)
    yield made
    made.close()


def batch(of: HttpSource, start: Position, end: Position) -> Sent:
    """Id and value of all messages."""
    rows = [
        row
        for part in of.split(start, end)
        for found in of.read(start, end, part)
        for row in found.to_pylist()
    ]
    return [(row["id"], json.loads(row["payload"])) for row in rows]


def step(of: HttpSource, start: Position, count: int = ALL) -> tuple[Position, Sent]:
    end = through_json(of.latest(start, count))
    return end, batch(of, start, end)


def numbers(sent: Sent) -> list[int]:
    return [value["number"] for _, value in sent]


def test_an_answer_may_be_one_message_that_changes_each_time(
    feed: PlayedFeed, shown: Shown
) -> None:
    """What was asked is sent, however often the batch is repeated."""
    ticks = itertools.count()
    feed.answer = lambda _: Reply(200, {"at": next(ticks)})  # type: ignore[method-assign]
    of = shown.source()
    start = of.first()

    end, first = step(of, start)
    _, second = step(of, end)

    assert [value["at"] for _, value in first + second] == [0, 1]
    assert batch(of, start, end) == first
    assert first[0][0] != second[0][0]


def test_a_run_that_is_to_end_looks_once(feed: PlayedFeed, shown: Shown) -> None:
    ticks = itertools.count()
    feed.answer = lambda _: Reply(200, [{"at": next(ticks)}])  # type: ignore[method-assign]
    of = shown.source()
    assert isinstance(of, HttpListing)

    of.freeze()
    end, found = step(of, of.first())

    assert [value["at"] for _, value in found] == [0]
    assert of.latest(end, ALL) == end


def test_items_are_known_by_their_content_or_their_id(feed: PlayedFeed, shown: Shown) -> None:
    feed.items = [{"number": 1, "n": 1}, {"number": 2}, {"number": 2}, {"n": 1, "number": 1}]
    by_content, by_id = shown.source(), shown.source(idPath="number")

    contents, of_content = step(by_content, by_content.first())
    ids, of_id = step(by_id, by_id.first())
    feed.items = [{"number": 1, "n": 7}]

    assert numbers(of_content) == [1, 2, 1]
    assert numbers(of_id) == [1, 2]
    assert numbers(step(by_content, contents)[1]) == [1]
    assert step(by_id, ids)[1] == []


def test_an_item_that_was_gone_comes_again_with_its_id(feed: PlayedFeed, shown: Shown) -> None:
    of = shown.source()
    feed.items = [{"number": 1}]
    end, first = step(of, of.first())
    feed.items = [{"number": 2}]
    end, _ = step(of, end)
    feed.items = [{"number": 2}, {"number": 1}]

    assert step(of, end)[1] == first


def test_an_update_with_another_cursor_is_another_message(feed: PlayedFeed, shown: Shown) -> None:
    of = shown.source(cursor={"parameter": "after", "path": "number"}, idPath="id")
    feed.items = [{"number": 1, "id": "a"}]
    end, first = step(of, of.first())
    feed.items = [{"number": 2, "id": "a"}]

    _, second = step(of, end)

    assert numbers(second) == [2]
    assert second[0][0] != first[0][0]


def test_items_lie_where_the_block_says(feed: PlayedFeed, shown: Shown) -> None:
    feed.wrap = "data.list"
    shown.add(2)
    of = shown.source(items="data.list")

    end, found = step(of, of.first())
    feed.answer = lambda _: Reply(200, {"data": {"list": None}})  # type: ignore[method-assign]

    assert numbers(found) == [0, 1]
    assert of.latest(end, ALL) == end


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("page", [0, 2])
def test_items_with_one_cursor_are_not_parted(
    feed: PlayedFeed, shown: Shown, *, inclusive: bool, page: int
) -> None:
    feed.inclusive, feed.page = inclusive, page
    feed.items = [{"number": n, "x": x} for n, x in ((1, 1), (2, 1), (2, 2), (2, 3), (3, 1))]
    of = shown.source(**CURSOR, next="Link")

    at, found = of.first(), []
    while True:
        at, some = step(of, at, 2)
        if not some:
            break
        found.append(numbers(some))

    assert found == [[1, 2, 2, 2], [3]]


def test_the_address_may_have_a_first_cursor(feed: PlayedFeed, shown: Shown) -> None:
    shown.add(5)
    of = shown.source(url=f"{feed.url}/items?after=2&key=s", **CURSOR)

    end, found = step(of, of.first())
    of.latest(end, ALL)

    assert numbers(found) == [3, 4]
    assert [one.path for one in feed.sent()] == ["/items?after=2&key=s", "/items?key=s&after=4"]


def test_a_service_that_pays_no_heed_to_the_cursor_is_named(shown: Shown) -> None:
    of = shown.source(cursor={"parameter": "other", "path": "text"})
    shown.feed.items = [{"text": "a"}, {"text": "b"}]
    end, _ = step(of, of.first())
    shown.feed.items += [{"text": "c"}]

    with pytest.raises(SinkError, match=r"http\.cursor: an item with b comes behind a"):
        of.latest(end, ALL)


@pytest.mark.parametrize("items", [[2, 1], [1, 0.5]])
def test_items_in_the_wrong_order_are_named(shown: Shown, items: list[float]) -> None:
    shown.feed.items = [{"number": number} for number in items]
    of = shown.source(**CURSOR)

    with pytest.raises(SinkError, match=r"http\.cursor: an item with .* the lowest first"):
        of.latest(of.first(), ALL)


def test_an_answer_that_is_as_it_was_is_not_sent_again(feed: PlayedFeed, shown: Shown) -> None:
    feed.versions = True
    shown.add(2)
    of = shown.source()
    end, _ = step(of, of.first())

    assert of.latest(end, ALL) == end
    shown.add(1)
    assert numbers(step(of, end)[1]) == [2]
    asked = [one.headers.get("If-None-Match") for one in feed.sent()]
    assert asked[0] is None
    assert asked[1] == asked[2] is not None


def test_no_version_stands_for_what_was_not_taken_yet(feed: PlayedFeed, shown: Shown) -> None:
    feed.versions = True
    shown.add(5)
    of = shown.source()

    end, first = step(of, of.first(), 3)
    _, second = step(of, end, 3)

    assert numbers(first + second) == [0, 1, 2, 3, 4]


def test_a_service_that_is_busy_is_asked_when_it_says(feed: PlayedFeed, shown: Shown) -> None:
    shown.add(1)
    pauses: list[float] = []
    retry = Retry(Policy(100.0), sleep=pauses.append, draw=lambda: 0.0)
    feed.faults += [Reply(503), Reply(429, b"", {"Retry-After": "7"}), LOST, Reply(200, b"<html>")]
    of = shown.source(retry=retry)

    assert numbers(step(of, of.first())[1]) == [0]
    assert pauses == [0, 7, 0, 0]


def test_a_login_is_read_again_when_it_is_not_known(
    feed: PlayedFeed, shown: Shown, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("old-secret")
    feed.login = "Bearer new-secret"
    shown.add(1)
    of = shown.source(credentialsPath=str(tmp_path))
    with pytest.raises(OptionError, match=r"http\.credentialsPath: .* answers 401") as error:
        of.check()

    (tmp_path / "token").write_text("new-secret")

    assert "secret" not in str(error.value)
    assert numbers(step(of, of.first())[1]) == [0]


def test_certificates_are_read_again_after_trouble(
    feed: PlayedFeed, shown: Shown, tmp_path: Path
) -> None:
    """They may have ended meanwhile: then it is the connection that fails."""
    of = shown.source(caPath=str(tmp_path), retry=quick(0.1))
    authority = tmp_path / "ca.crt"
    authority.write_bytes(Path(certifi.where()).read_bytes())
    of.check()
    authority.write_text("no certificate")
    feed.faults.append(LOST)

    with pytest.raises(OptionError, match=r"http\.caPath"):
        of.latest(of.first(), ALL)


def test_tokens_are_bought(feed: PlayedFeed, shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "clientId").write_text("c")
    (tmp_path / "clientSecret").write_text("secret")
    shown.add(1)
    of = shown.source(credentialsPath=str(tmp_path), oauth2={"tokenUrl": f"{feed.url}/token"})

    assert numbers(step(of, of.first())[1]) == [0]
    assert feed.sent()[0].headers["Authorization"] == "Bearer bought"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(404, b"no such"), r"http\.url: http://\S+/items answers 404: no such: correct url"),
        (Reply(301, b"", {"Location": "http://b/"}), r"http: .* answers 301 and sends on to http"),
        (Reply(200, {"other": []}), r"http\.items: data\.list is not in the answer"),
        (Reply(200, {"data": []}), r"http\.items: data\.list is not in the answer"),
        (Reply(200, {"data": {"list": {}}}), r"http\.items: data\.list of the answer is no list"),
        (Reply(200, {"data": {"list": [{}]}}), r"http\.idPath: id is not in an item"),
        (Reply(200, {"data": {"list": [7]}}), r"http\.idPath: id is not in an item"),
        (Reply(200, {"data": {"list": [{"id": {}}]}}), r"http\.idPath: id of an item is neither"),
        (Reply(200, b"<html>"), r"answers 200 with something else than JSON"),
        (Reply(503, b"closed"), r"answers 503: closed"),
    ],
)
def test_an_answer_that_is_not_what_was_meant_is_named(
    feed: PlayedFeed, shown: Shown, reply: Reply, text: str
) -> None:
    feed.answer = lambda _: reply  # type: ignore[method-assign]
    of = shown.source(items="data.list", idPath="id", retry=quick(0.1))

    for work in (of.check, lambda: of.latest(of.first(), ALL)):
        with pytest.raises(SinkError, match=text) as error:
            work()
        assert "secret" not in str(error.value)


def test_the_login_goes_to_no_other_service(feed: PlayedFeed, shown: Shown) -> None:
    feed.extra = {"Link": '<https://elsewhere.example/items?at=3&token=secret>; rel="next"'}
    shown.add(1)
    of = shown.source(next="Link")

    with pytest.raises(SinkError, match=r"http\.next: .* another service") as error:
        of.latest(of.first(), ALL)
    assert "secret" not in str(error.value)


def test_pages_are_bounded(feed: PlayedFeed, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAGES_MAX", 3)
    feed.page = 2
    shown.add(7)
    listing, cursor = shown.source(next="Link"), shown.source(next="Link", **CURSOR)

    with pytest.raises(SinkError, match=r"http\.next: the answer has more than 3 pages"):
        listing.latest(listing.first(), ALL)
    end, found = step(cursor, cursor.first())

    assert numbers(found) == [0, 1, 2, 3, 4, 5]
    assert numbers(step(cursor, end)[1]) == [6]


def test_an_answer_is_bounded(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "ANSWER_BYTES_MAX", 1 << 20)
    shown.feed.answer = lambda _: Reply(200, b" " * (2 << 20))  # type: ignore[method-assign]
    of = shown.source()

    with pytest.raises(SinkError, match="answers with more than 1 MiB"):
        of.latest(of.first(), ALL)


def test_a_position_is_bounded(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_items, "BATCH_BYTES_MAX", 1000)
    monkeypatch.setattr(http_items, "TIED_BYTES_MAX", 3000)
    shown.feed.items = [{"number": n, "text": "x" * 370} for n in range(5)]
    listing, cursor = shown.source(), shown.source(**CURSOR)

    end, first = step(listing, listing.first())
    _, second = step(listing, end)
    shown.feed.items = [{"number": 7, "n": n, "text": "x" * 370} for n in range(10)]

    assert numbers(first) == [0, 1]
    assert numbers(second) == [2, 3]
    with pytest.raises(SinkError, match=r"http\.cursor: items with 7 have more than 3000 bytes"):
        cursor.latest(cursor.first(), ALL)
    shown.feed.items = [{"number": 1, "text": "x" * 1000}]
    with pytest.raises(SinkError, match=r"http\.url: an item has 1022 bytes, and at most 1000"):
        cursor.latest(cursor.first(), ALL)


@pytest.mark.parametrize("block", [{}, CURSOR])
def test_what_is_remembered_is_bounded(
    shown: Shown, block: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_items, "SEEN_MAX", 5)
    shown.feed.items = [{"number": 7, "n": n} for n in range(6)]
    of = shown.source(**block)

    with pytest.raises(SinkError, match=r"http\.cursor: more than 5 items (with|in one answer)"):
        of.latest(of.first(), ALL)


def test_a_list_that_is_long_is_taken_in_parts(shown: Shown) -> None:
    shown.feed.items = [{"number": n} for n in range(http_items.SEEN_MAX)]
    of = shown.source()
    end, first = step(of, of.first(), 9_000)
    shown.feed.items = shown.feed.items[5000:] + [{"number": -n} for n in range(1, 5001)]

    end, second = step(of, end, 5000)
    _, third = step(of, end)

    assert numbers(first) == list(range(9000))
    assert sorted(numbers(second + third)) == [*range(-5000, 0), *range(9000, 10_000)]
    assert len(json.dumps(end)) < 256 << 10


def test_a_position_of_something_else_is_refused(shown: Shown) -> None:
    with pytest.raises(OffsetFormatError, match="holds no position of a source Http"):
        shown.source().latest({"next": 5}, ALL)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"timeout": "0s"}, r"http\.timeout"),
        ({"headers": {"Authorization": "x"}}, r"http\.headers: Authorization"),
    ],
)
def test_wrong_settings_are_named(shown: Shown, block: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        shown.source(**block)


def test_headers_of_the_settings_win(feed: PlayedFeed, shown: Shown) -> None:
    shown.source(headers={"accept": "application/vnd.shop+json", "x-team": "a"}).check()

    (asked,) = feed.sent()
    assert asked.headers.get_all("Accept") == ["application/vnd.shop+json"]
    assert asked.headers["x-team"] == "a"
