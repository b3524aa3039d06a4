"""A web service that shows items, played: lists, cursors, pages and versions as they are told."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Http
from iggy_spark.sources import http
from iggy_spark.sources.http import HttpSource
from played_server import PlayedServer, Reply, Request
from quick_retry import quick


class PlayedFeed(PlayedServer):
    """Items under /items. With `page` so many at a time, and a header Link; with `after` it shows
    those whose number is greater than that parameter says, or with `inclusive` also those of it.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.items: list[Any] = []
        self.page = 0
        self.inclusive = False
        self.versions = False
        self.wrap: str | None = None
        self.extra: dict[str, str] = {}

    def carries(self, request: Request) -> bool:
        return request.method == "GET"

    def answer(self, request: Request) -> Reply:
        if request.path == "/token":
            return Reply(200, {"access_token": "bought", "expires_in": 60})
        asked = {name: found[0] for name, found in parse_qs(urlsplit(request.path).query).items()}
        shown = self.items
        if "after" in asked:
            after = int(asked["after"])
            shown = [one for one in shown if one["number"] > after - int(self.inclusive)]
        headers = dict(self.extra)
        if self.page:
            at = int(asked.get("at", 0))
            following = at + self.page
            if following < len(shown):
                rest = f"&after={asked['after']}" if "after" in asked else ""
                headers["Link"] = (
                    f'</items?at=0>; rel="first", </items?at={following}{rest}>; rel=next'
                )
            shown = shown[at:following]
        body: Any = shown
        for name in reversed(self.wrap.split(".") if self.wrap else []):
            body = {"more": True, name: body}
        if self.versions:
            headers["ETag"] = f'"{len(json.dumps(body))}-{len(self.items)}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return Reply(304, b"", headers)
        return Reply(200, body, headers)


class Shown:
    """An `Origin` whose items a played service shows."""

    def __init__(self, feed: PlayedFeed, **block: Any) -> None:
        self.feed, self.block = feed, {"url": f"{feed.url}/items?key=secret", **block}
        self.lump = 0
        self.count = 0
        self._made: list[HttpSource] = []

    def close(self) -> None:
        """Close all sources that were made."""
        for made in self._made:
            made.close()

    def source(self, *, retry: Retry | None = None, **more: Any) -> HttpSource:
        block = msgspec.convert({**self.block, **more}, Http)
        retry = quick(5.0) if retry is None else retry
        made = http.of(block, name="shop/feed", retry=retry)
        self._made.append(made)
        return made

    def add(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.feed.items += [{"number": number, "text": "line\nbreak"} for number in numbers]
        self.count += count

    def number(self, payload: bytes) -> int:
        return int(json.loads(payload)["number"])

    def away(self) -> HttpSource | None:
        block = msgspec.convert({**self.block, "url": "http://127.0.0.1:9/in?key=secret"}, Http)
        return http.of(block, name="shop/feed", retry=quick(0.1))
