"""The source Http against a played service: the contract of all sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from played_feed import PlayedFeed, Shown
from source_contract import Origin, SourceContract

CURSOR = {"cursor": {"parameter": "after", "path": "number"}}
KINDS = {
    "list": {},
    "paged list": {"next": "Link", "idPath": "number"},
    "cursor": CURSOR,
    "inclusive cursor": {**CURSOR, "idPath": "number"},
    "paged cursor": {**CURSOR, "next": "Link"},
}


@pytest.fixture
def feed() -> Iterator[PlayedFeed]:
    with PlayedFeed() as running:
        yield running


class TestHttp(SourceContract):
    @pytest.fixture(params=list(KINDS))
    def origin(self, request: pytest.FixtureRequest, feed: PlayedFeed) -> Origin:
        kind = request.param
        feed.page = 3 if "paged" in kind else 0
        feed.inclusive = kind == "inclusive cursor"
        feed.versions = "cursor" not in kind
        return Shown(feed, **KINDS[kind])
