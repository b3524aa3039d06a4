"""docs/compatibility.md is what was run, of every cell that there is."""

from foreign_suites.matrix import page, results
from foreign_suites.matrix.clients import ORDER

CELLS = results.read(page.RECORD)


def test_the_table_is_up_to_date() -> None:
    text = page.PAGE.read_text()

    assert text == page.page_with_table(text, CELLS), 'run: make interop ARGS="matrix --record"'


def test_every_cell_was_run() -> None:
    assert list(CELLS) == ORDER
