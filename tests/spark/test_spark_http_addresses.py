"""Addresses of a source Http: cursors in queries, and next pages in headers."""

import pytest

from iggy_spark.errors import SinkError
from iggy_spark.sources import http_pages

URL = "https://a.example:8443/v1/items?at=1"


@pytest.mark.parametrize(
    ("url", "value", "wanted"),
    [
        ("http://a/x", None, "http://a/x"),
        ("http://a/x", 7, "http://a/x?since=7"),
        ("http://a/x?b=&since=1&c=%20", "2026-01-01T00:00:00+01:00",
         "http://a/x?b=&c=%20&since=2026-01-01T00%3A00%3A00%2B01%3A00"),
        ("http://a/x?since=1", None, "http://a/x?since=1"),
    ],
)  # fmt: skip
def test_a_cursor_takes_its_place_in_the_query(
    url: str, value: str | int | None, wanted: str
) -> None:
    assert http_pages.with_cursor(url, "since", value) == wanted


@pytest.mark.parametrize(
    ("link", "wanted"),
    [
        (None, None),
        ("", None),
        ('<?at=2>; rel="next"', "https://a.example:8443/v1/items?at=2"),
        ("</x>; rel=next", "https://a.example:8443/x"),
        ('<https://A.example:8443/y>; title="a, b; c"; REL="prev Next"', "https://A.example:8443/y"),
        ('</p>; rel="prev", </n>; rel="next", </l>; rel="last"', "https://a.example:8443/n"),
        ('</p>; rel="prev"', None),
        ("</p>", None),
        ("nothing of the kind", None),
    ],
)  # fmt: skip
def test_the_next_page_is_in_the_header_link(link: str | None, wanted: str | None) -> None:
    assert http_pages.next_page(URL, link) == wanted


@pytest.mark.parametrize("link", ["<http://a.example:8443/x>", "<https://b.example/x>", "<//c/x>"])
def test_another_service_is_no_next_page(link: str) -> None:
    with pytest.raises(SinkError, match=r"http\.next: https://a\.example:8443/v1/items names"):
        http_pages.next_page(URL, f"{link}; rel=next")
