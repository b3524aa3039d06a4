"""Addresses of a web service's answers: with a cursor, and of the pages that follow. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

from iggy_spark.errors import SinkError
from iggy_spark.sinks.web_login import shown

# RFC 8288, 3: <address>; name=value; name="value", and several of them with commas between.
_LINK: Final = re.compile(r"<([^>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:\"[^\"]*\"|[^\s;,]*))?)*)")
_REL: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,]*))", re.IGNORECASE)


def with_cursor(url: str, parameter: str, value: str | int | float | None) -> str:
    """The address that asks for what is behind a cursor; None: the address as it is, which may have
    a first value of its own.
    """
    if value is None:
        return url
    parts = urlsplit(url)
    others = [
        pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != parameter
    ]
    query = urlencode([*others, (parameter, str(value))], quote_via=quote)
    return parts._replace(query=query).geturl()


def next_page(url: str, link: str | None) -> str | None:
    """The address of the next page, by the header Link of the answer from `url`; None: there is no
    such page.

    Raises:
        SinkError: it is at another service, which must not get our login.
    """
    for address, parameters in _LINK.findall(link or ""):
        rel = _REL.search(parameters)
        if rel is None or "next" not in (rel[1] or rel[2] or "").lower().split():
            continue
        found: str = urljoin(url, address)
        if origin(found) != origin(url):
            raise SinkError(
                f"http.next: {shown(url)} names {shown(found)} as its next page, which is another "
                "service: the login is not sent there"
            )
        return found
    return None


def origin(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def path(url: str) -> str:
    """What is behind the origin."""
    parts = urlsplit(url)
    return parts._replace(scheme="", netloc="", fragment="", path=parts.path or "/").geturl()
