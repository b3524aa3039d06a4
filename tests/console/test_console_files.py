"""What is served below `/ui`: known files only, with headers that let nothing in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iggy_broker.net.http.console import files
from iggy_broker.net.http.console.files import Console, is_console
from iggy_broker.net.http.replies import Reply

STATIC = Path(files.__file__).parent / "static"
DOCS = Path(__file__).resolve().parents[2] / "docs"
LINES_MAX = 400
PICTURE_BYTES_MAX = 150_000
# Ways from text to markup or code, and what the policy would refuse.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://"
)
NAMESPACE = "http://www.w3.org/2000/svg"  # the name of a kind of elements: nothing is fetched


@pytest.fixture(scope="module")
def console() -> Console:
    return Console("/metrics")


def assets(console: Console) -> str:
    """The folder that the page names."""
    found = re.search(rb"/ui/assets/[0-9a-f]+", ask(console, "/ui").body)
    assert found is not None
    return found[0].decode()


def ask(console: Console, path: str, *, method: str = "GET", known: str = "") -> Reply:
    return console.reply(method, path, known)


def test_page_and_places_in_it_are_asked_for_anew(console: Console) -> None:
    page = ask(console, "/ui")

    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert b'content="/metrics"' in page.body and b"{{" not in page.body
    assert dict(page.headers)["cache-control"] == "no-cache"
    assert ask(console, "/ui/") == ask(console, "/ui/streams/1") == page
    again = ask(console, "/ui", known=dict(page.headers)["etag"])
    assert (again.status, again.body) == (304, b"")


def test_files_are_kept_for_ever_under_the_hash_of_all(console: Console) -> None:
    folder = assets(console)
    for path in STATIC.rglob("*.*"):
        found = ask(console, f"{folder}/{path.relative_to(STATIC)}")
        if path.name == "index.html":
            assert found.status == 404, "only with its blanks filled"
            continue
        assert (found.status, found.body) == (200, path.read_bytes())
        assert "immutable" in dict(found.headers)["cache-control"]
    script = ask(console, f"{folder}/main.js")
    assert script.content_type == "text/javascript; charset=utf-8"
    assert ask(console, "/ui/assets/0123456789abcdef/main.js").status == 404, "of another version"


def test_every_answer_has_the_headers(console: Console) -> None:
    for path in ("/ui", f"{assets(console)}/main.js", "/ui/missing.js"):
        headers = dict(ask(console, path).headers)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize(
    "name",
    ["../files.py", "..%2ffiles.py", "%2e%2e/files.py", "views/../main.js", "./main.js", "views/"],
)
def test_nothing_else_is_a_file(console: Console, name: str) -> None:
    folder = assets(console)
    for path in (f"{folder}/{name}", f"/ui/{name}"):
        found = ask(console, path)
        assert found.status == 404 or found == ask(console, "/ui")
        assert b"hashlib" not in found.body


def test_only_reading(console: Console) -> None:
    refused = ask(console, "/ui", method="POST")

    assert (refused.status, dict(refused.headers)["allow"]) == (405, "GET,HEAD")


def test_without_metrics_the_page_knows_of_none() -> None:
    assert b'name="metrics" content=""' in ask(Console(None), "/ui").body


def test_which_paths_are_the_console() -> None:
    assert [path for path in ("/ui", "/ui/", "/ui/a", "/uid", "/", "/u") if is_console(path)] == [
        "/ui", "/ui/", "/ui/a",
    ]  # fmt: skip


def test_files_are_small_and_make_no_markup_of_data() -> None:
    for path in STATIC.rglob("*.*"):
        text = path.read_text().replace(NAMESPACE, "")
        assert len(text.splitlines()) < LINES_MAX, path
        assert FORBIDDEN.findall(text) == [], path


def test_pictures_in_the_pages_are_there_and_small() -> None:
    named = {
        page.parent / name
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }

    assert {path for path in named if path.stat().st_size > PICTURE_BYTES_MAX} == set()
    assert set((DOCS / "images").glob("*")) <= named, "no picture that no page shows"
