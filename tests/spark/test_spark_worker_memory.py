"""What worker processes do about Python's collector while they decode."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from iggy_spark import decode
from iggy_spark.worker_memory import without_collections
from message_columns import messages
from sink_cases import declare

ROWS = 5000  # each an object that Python counts, 700 of which begin a search


@pytest.fixture
def searches() -> Iterator[list[str]]:
    """Searches for cycles that begin or end."""
    found: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        found.append(phase)

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_nobody_searches_the_rows_of_a_batch_for_cycles(searches: list[str]) -> None:
    decoder = decode.build(declare("Json", "n BIGINT, more ARRAY<INT>"))
    assert decoder is not None
    payloads = pa.array([b'{"n": %d, "more": [1, 2]}' % number for number in range(ROWS)])
    searches.clear()
    decoded = decoder.decode(payloads, messages(ROWS))
    assert searches.count("start") <= 1, "but for one behind the batch"
    assert decoded.values.field("n").to_pylist() == list(range(ROWS))
    searches.clear()
    assert len([[number] for number in range(ROWS)]) == ROWS
    assert searches.count("start") > 1, "as others are"


def test_the_collector_is_left_as_it_was_found_also_after_an_error() -> None:
    with pytest.raises(KeyError), without_collections():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
