"""Keys of messages, and small batches that become large ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from iggy_spark.sending import BATCH_BYTES, BATCH_MESSAGES, KEY_BYTES_MAX
from iggy_spark.source_keys import with_keys
from iggy_spark.source_task import gathered, payload_bytes
from iggy_spark.sources.base import ID_BYTES, message_id, record_batch


def made(payloads: Sequence[bytes], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    ids = [message_id("test", number) for number in range(len(payloads))]
    return record_batch(ids, payloads, keys)


def keys_at(path: str | None, *payloads: bytes) -> list[bytes | None]:
    found: list[bytes | None] = with_keys(made(payloads), path).column("key").to_pylist()
    return found


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (b'{"a": {"b": "x"}}', b"x"),
        (b'{"a": {"b": 7}}', b"7"),
        (b'{"a": {"b": 1.5}}', b"1.5"),
        (b'{"a": {"b": true}}', b"true"),
        (b'{"a": {"b": {"z": 1, "c": [2]}}}', b'{"c":[2],"z":1}'),
        ('{"a": {"b": "\u00fc"}}'.encode(), "\u00fc".encode()),
        (b'{"a": {"b": null}}', None),
        (b'{"a": {"b": ""}}', None),
        (b'{"a": {}}', None),
        (b'{"a": [1]}', None),
        (b"[]", None),
        (b"no json", None),
        (b"\xff", None),
    ],
)
def test_a_path_leads_to_the_key(payload: bytes, key: bytes | None) -> None:
    assert keys_at("a.b", payload) == [key]


def test_without_a_path_the_keys_are_the_sources_own() -> None:
    batch = made([b"x", b"y", b"z"], [b"k", None, b""])

    assert with_keys(batch, None).column("key").to_pylist() == [b"k", None, None]
    assert with_keys(made([b"x"]), None).column("key").to_pylist() == [None]


def test_a_path_wins_over_the_sources_own() -> None:
    batch = made([b'{"a": 1}', b"{}"], [b"k", b"k"])

    assert with_keys(batch, "a").column("key").to_pylist() == [b"1", None]


def test_a_key_that_is_too_long_is_stood_for_by_its_hash() -> None:
    fits, long = "x" * KEY_BYTES_MAX, "x" * (KEY_BYTES_MAX + 1)

    found = keys_at("a", *(json.dumps({"a": key}).encode() for key in (fits, long, long)))

    assert found[0] == fits.encode()
    assert found[1] == found[2] == hashlib.blake2b(long.encode()).hexdigest().encode()


def test_messages_stay_as_they_are() -> None:
    batch = made([b'{"a": 1}', b'{"a": 2}'])

    keyed = with_keys(batch, "a")

    assert keyed.schema == batch.schema
    assert keyed.column("id") == batch.column("id")
    assert keyed.column("payload") == batch.column("payload")


def test_small_batches_are_joined_and_empty_ones_left_out() -> None:
    count = BATCH_MESSAGES + 10

    found = list(gathered(made([b"x"] if number % 2 else []) for number in range(2 * count)))

    assert [batch.num_rows for batch in found] == [BATCH_MESSAGES, 10]


def test_large_messages_do_not_pile_up() -> None:
    half = bytes(BATCH_BYTES // 2 + 1)

    found = list(gathered(made([half]) for _ in range(5)))

    assert [batch.num_rows for batch in found] == [2, 2, 1]
    assert payload_bytes(found[2]) == len(half)


def test_a_slice_counts_its_own_bytes() -> None:
    assert payload_bytes(made([b"abc", b"de", b"f"]).slice(1, 2)) == 3
    assert payload_bytes(made([])) == 0


def test_ids_are_of_their_words_alone() -> None:
    found = [
        message_id("a", "b"),
        message_id("ab"),
        message_id("a", b"b"),
        message_id("a", 1),
        message_id("a", "1"),
        message_id(),
        message_id(""),
    ]

    assert len(set(found)) == len(found)
    assert {len(one) for one in found} == {ID_BYTES}
    assert message_id("a", 1) == message_id("a", 1)
