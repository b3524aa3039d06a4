"""The sources that the pages of Files and Http show do read, where place and login are a test's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from object_store import ObjectStore
from page_samples import blocks
from played_feed import PlayedFeed, Shown
from source_contract import ALL, Origin, read
from source_folders import Prefix, source


def shown(page: str) -> dict[str, Any]:
    """The block of the only source of a page."""
    (sample,) = (one for one in blocks() if one.place.startswith(f"docs/sources/{page}.md"))
    (document,) = sample.documents()
    (found,) = document["spec"]["sources"]
    block: dict[str, Any] = found[page]
    return block


def values(origin: Any) -> list[Any]:
    """All that is there."""
    of: Origin = origin
    driver = of.source()
    driver.check()
    start = driver.first()
    end = driver.latest(start, ALL)
    driver.close()
    return [json.loads(message.payload) for message in read(of, start, end)]


class Page:
    """An origin of one source."""

    def __init__(self, make: Any) -> None:
        self.source = make


def test_the_files_of_the_page_are_read(store: ObjectStore) -> None:
    place = Prefix(store)
    block = shown("files") | place.block | {"settle": "0s"}
    place.put("monday/a.csv", b"id,customer\n1,ann\n2,bob\n")

    found = values(Page(lambda: source(place, **block)))

    assert found == [{"id": "1", "customer": "ann"}, {"id": "2", "customer": "bob"}]


@pytest.fixture
def feed() -> Iterator[PlayedFeed]:
    with PlayedFeed() as running:
        yield running


def test_the_items_of_the_page_are_read(feed: PlayedFeed, tmp_path: Path) -> None:
    block = shown("http")
    del block["credentialsSecretName"]
    for name in ("clientId", "clientSecret"):
        (tmp_path / name).write_text(name)
    block["url"] = block["url"].replace("https://orders.example/api/orders", f"{feed.url}/items")
    block["oauth2"]["tokenUrl"] = f"{feed.url}/token"
    feed.wrap, feed.page = block["items"], 2
    feed.items = [{"id": n, "updatedAt": f"2026-01-0{n}"} for n in range(1, 6)]
    made = Shown(feed, **block, credentialsPath=str(tmp_path))

    assert [value["id"] for value in values(made)] == [1, 2, 3, 4, 5]
    asked = feed.sent()
    assert {one.headers["Authorization"] for one in asked} == {"Bearer bought"}
    assert "limit=500" in asked[0].path
    made.close()
