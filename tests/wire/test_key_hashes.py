"""Known hashes of keys and of consumers' names (Iggy protocol 0.11; XXH32, seed 0)."""

from __future__ import annotations

import pytest

from iggy_wire.primitives import Consumer, partition_of_key

HASHES = {
    b"a": 0x550D7456,
    b"abc": 0x32D153FF,
    b"abcd": 0xA3643705,
    b"key": 0xB3D93AE0,
    b"key-1": 0x39636A09,
    b"key_1": 0xF415C1D5,
    b"user_123": 0xFD6BEDC2,
    b"order-42": 0xBBC33AD1,
    b"order-key-1": 0x0D3FE0E1,
    b"hello world": 0xCEBB6622,
    b"0123456789abcdef": 0xC2C45B69,
    "żółć".encode(): 0x8C4FA824,
    (1).to_bytes(4, "little"): 0xF3BB7693,
    (1337).to_bytes(4, "little"): 0x1C4D6FB5,
    (1).to_bytes(8, "little"): 0x08ED6331,
    bytes([255]) * 8: 0xC182C6D9,
    (1).to_bytes(16, "little"): 0xB675D3C5,
    bytes(range(32)): 0x830741C1,
    b"x" * 255: 0x9D0AB366,
}
NUMBERS = {
    "test-consumer": 3577999708,
    "my-consumer": 2115191887,
    "consumer-1": 1338303147,
    "iggy": 2520218128,
}


@pytest.mark.parametrize("key", HASHES, ids=lambda key: key[:12].hex())
def test_a_key_takes_the_rest_of_its_unsigned_hash(key: bytes) -> None:
    for count in (1, 2, 3, 4, 5, 8, 10, 16, 1000, 1_000_000):
        assert partition_of_key(key, count) == HASHES[key] % count


@pytest.mark.parametrize("name", NUMBERS)
def test_a_name_of_a_consumer_is_a_number(name: str) -> None:
    assert Consumer.plain(name).number == NUMBERS[name]
