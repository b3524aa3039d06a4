"""The documents: links lead somewhere, settings and decisions are all there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import settings_table

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("charts/*/*.md"), *ROOT.glob("helm/*.md")]
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# The path of a file or folder of this repository, as text in backticks.
CODE_PATH = re.compile(
    r"`((?:wire|broker|operator|spark|cli|demo|bench|tests|docs|crds|charts|helm)/[\w./-]+)`"
)
DECISION_LINES_MAX = 60
SECTIONS = ("## Context", "## Decision", "## Consequences")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(page: Path) -> Iterator[str]:
    yield from LINK.findall(FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """What a heading is linked by: lower case, no punctuation, dashes for blanks."""
    found = set()
    for line in FENCE.sub("", page.read_text()).splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower().replace("`", "")
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_files_that_are_named_exist(page: Path) -> None:
    named = CODE_PATH.findall(FENCE.sub("", page.read_text()))

    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}

    missing = [shown(page) for page in DOCS.glob("*.md") if page not in linked | {index}]

    assert missing == []


def test_the_table_of_settings_is_up_to_date() -> None:
    page = settings_table.PAGE.read_text()

    expected = settings_table.page_with_table(page)

    assert page == expected, "run: .venv/bin/python tests/support/settings_table.py"


def test_every_decision_is_linked_and_has_its_parts() -> None:
    index = DECISIONS / "README.md"
    linked = {(DECISIONS / link).resolve() for link in links(index)}
    records = sorted(DECISIONS.glob("[0-9]*.md"))

    assert records
    assert [shown(record) for record in records if record not in linked] == []
    for record in records:
        text = record.read_text()
        assert [section for section in SECTIONS if section not in text] == [], shown(record)
        assert len(text.splitlines()) <= DECISION_LINES_MAX, shown(record)


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(record.name[:4]) for record in sorted(DECISIONS.glob("[0-9]*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))
