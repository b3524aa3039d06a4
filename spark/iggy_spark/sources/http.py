"""Answers of a web service, asked for again and again, as messages.

The driver asks, and puts what is new into the position itself: see `http_items`. So a batch that is
repeated is the same, whatever the service says by then; and what it showed only between two
requests was never there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec
import pyarrow as pa

from iggy_spark import options
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import http_body
from iggy_spark.sinks.web import Answer, Place, Web, checked
from iggy_spark.sinks.web_login import FileLogin, Login, OAuth2Login
from iggy_spark.source_blocks import Http
from iggy_spark.sources import http_items, http_pages
from iggy_spark.sources.base import Position, record_batch
from iggy_spark.sources.http_items import At, Item, Plan, Reader

PAGES_MAX: Final = 100  # of one look
FROZEN_BYTES_MAX: Final = 64 << 20  # of all pages together, where one look must do
NOT_MODIFIED: Final = 304
_LOGIN_FILES: Final = ("token", "username", "password")


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    items: list[Item]
    etag: str | None
    is_only: bool  # there is no other page
    is_cut: bool  # there are more pages than are looked at


class HttpSource:
    """See `base.Source`."""

    def __init__(
        self,
        settings: Http,
        *,
        name: str,
        retry: Retry,
    ) -> None:
        """`name` is the source's; it is part of the ids. Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        self._settings, self._retry = settings, retry
        self._reader = Reader(settings, name)
        http_body.check_headers(settings.headers)
        accepts = any(chosen.lower() == "accept" for chosen in settings.headers)
        self._headers = {**({} if accepts else {"Accept": http_body.JSON}), **settings.headers}
        timeout_ms = options.parse_duration_ms("http.timeout", settings.timeout)
        if timeout_ms == 0:
            raise OptionError("http.timeout: must be more than 0, such as 30s")
        self._place = Place(
            "http",
            (http_pages.origin(settings.url),),
            ca_path=settings.ca_path,
            client_path=settings.credentials_path,
            timeout_s=timeout_ms / 1000,
        )
        self._opened: Web | None = None
        # An answer that was used up: where, the address, its ETag.
        self._version: tuple[At, str, str] | None = None

    def check(self) -> None:
        """Ask once, and look for items.

        Raises:
            SinkError: nothing answers, or not what the block says.
            OptionError: the login is wrong.
        """
        checked(lambda: self._fetch(self._settings.url, {}))

    def first(self) -> Position:
        """Nothing was seen."""
        return http_items.to_json(At())

    def latest(self, start: Position, messages_max: int) -> Position:
        """What the service shows now and was not sent."""
        at = http_items.parse(start)
        plan = Plan(at, messages_max, has_cursor=self._settings.cursor is not None)
        self._look(at, plan)
        return http_items.to_json(plan.end()) if plan.batch else start

    def _look(self, at: At, plan: Plan) -> None:
        """Take what the service shows now."""
        cursor = self._settings.cursor
        url = self._settings.url
        if cursor is not None:
            url = http_pages.with_cursor(url, cursor.parameter, at.cursor)
        known = self._version
        is_known = known is not None and at.is_at(known[0]) and known[1] == url
        etag = known[2] if is_known and known is not None else None
        for page in self._pages(url, etag):
            plan.take(page.items)
            if plan.is_full and cursor is not None:
                return
            if page.is_only and page.etag is not None and not plan.is_full:
                self._version = (plan.end(), url, page.etag)
            if page.is_cut and not (plan.batch and cursor is not None):
                raise SinkError(
                    f"http.next: the answer has more than {PAGES_MAX} pages: name a cursor, or ask "
                    "for larger pages by what is behind ? in url"
                )

    def _pages(self, url: str, etag: str | None = None) -> Iterator[Page]:
        """All answers, at most PAGES_MAX; none if the first is still the one of `etag`."""
        headers = {} if etag is None else {"If-None-Match": etag}
        following: str | None = url
        for number in range(PAGES_MAX):
            assert following is not None
            work = functools.partial(self._try, following, headers)
            found = self._retry.call(work, what=self._place.name)
            if found is None:
                return
            items, said = found
            following = self._next(following, said)
            is_last = following is None
            yield Page(
                items,
                said.get("etag"),
                is_only=number == 0 and is_last,
                is_cut=number + 1 == PAGES_MAX and not is_last,
            )
            if is_last:
                return
            headers = {}

    def _next(self, url: str, said: httpx.Headers) -> str | None:
        if self._settings.next is None:
            return None
        return http_pages.next_page(url, said.get("link"))

    def _try(self, url: str, headers: Mapping[str, str]) -> tuple[list[Item], httpx.Headers] | None:
        try:
            return self._fetch(url, headers)
        except TransientError:
            self.close()  # the next one reads login and certificates anew
            raise

    def _fetch(
        self, url: str, headers: Mapping[str, str]
    ) -> tuple[list[Item], httpx.Headers] | None:
        """One answer; None: it is what it was."""
        path = http_pages.path(url)
        web = self._web()
        answer, said = web.ask("GET", path, headers={**self._headers, **headers})
        if answer.status == NOT_MODIFIED and headers:
            return None
        web.judge(answer, said)
        if not answer.is_success:
            raise SinkError(
                f"http.url: {answer.where} answers {answer.status}: {answer.text}: correct url or "
                "headers"
            )
        return self._items(answer), said

    def _items(self, answer: Answer) -> list[Item]:
        if not answer.body.strip():
            return []
        try:
            return self._reader.items(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            # Perhaps something else answers for a while, such as a proxy.
            raise TransientError(
                f"{answer.where} answers {answer.status} with something else than JSON: {error}"
            ) from error

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """One part."""
        return [] if start == end else [{}]

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """The messages that the position holds. Asks nobody."""
        payloads = http_items.unpacked(http_items.parse(end).batch)
        yield record_batch([self._reader.item(text).id for text in payloads], payloads)

    def done(self, end: Position) -> None:
        """Nothing: a service is only read."""

    def behind(self, at: Position) -> int | None:
        """Nobody can tell."""
        return None

    def close(self) -> None:
        """Let go of the connection."""
        web, self._opened = self._opened, None
        if web is not None:
            web.close()

    def _web(self) -> Web:
        if self._opened is None:
            self._opened = Web(self._place, self._login())
        return self._opened

    def _login(self) -> Login:
        block = self._settings
        if block.oauth2 is not None:
            return OAuth2Login("http", block.credentials_path, block.oauth2)
        return FileLogin("http", block.credentials_path, _LOGIN_FILES)


class HttpListing(HttpSource):
    """The same without a cursor. The answer may be another one each time, so a run that is to end
    looks once.
    """

    _frozen: list[Item] | None = None

    def freeze(self) -> None:
        """See `base.Freezing`."""
        found: list[Item] = []
        for page in self._pages(self._settings.url):
            found += page.items
            if page.is_cut or sum(len(item.payload) for item in found) > FROZEN_BYTES_MAX:
                raise SinkError(
                    f"http.url: the answer has more than {FROZEN_BYTES_MAX} bytes or {PAGES_MAX} "
                    "pages: name a cursor, or run with the trigger ProcessingTime"
                )
        self._frozen = found

    def _look(self, at: At, plan: Plan) -> None:
        if self._frozen is None:
            super()._look(at, plan)
        else:
            plan.take(self._frozen)


def of(settings: Http, *, name: str, retry: Retry) -> HttpSource:
    """The source of a block. Raises OptionError as its class does."""
    kind = HttpListing if settings.cursor is None else HttpSource
    return kind(settings, name=name, retry=retry)
