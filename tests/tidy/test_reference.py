"""docs/reference is what the code says."""

import pytest

import reference_pages

WANTED = reference_pages.pages()


@pytest.mark.parametrize("name", WANTED)
def test_a_page_of_the_reference_is_up_to_date(name: str) -> None:
    page = reference_pages.FOLDER / name

    assert page.exists(), "run: make reference"
    assert page.read_text() == WANTED[name], "run: make reference"


def test_the_reference_has_no_other_pages() -> None:
    assert {path.name for path in reference_pages.FOLDER.iterdir()} == set(WANTED)


def test_every_field_is_in_the_reference() -> None:
    page = WANTED["iggytopic.md"]

    for field in ("partitionDecreasePolicy", "messageExpiry", "enforceFsync", "sinksSummary"):
        assert f"**`{field}`**" in page


def test_lines_can_be_read() -> None:
    for name, page in WANTED.items():
        long = [
            line
            for line in page.splitlines()
            if len(line) > reference_pages.LINE_CHARACTERS_MAX and not line.startswith("|")
        ]
        assert long == [], name
