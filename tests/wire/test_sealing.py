"""Encrypted batches: read back as they were, walked without a key, and not to be changed unseen."""

import base64
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from struct import Struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_wire import kernel, sealing
from iggy_wire.batch import Message, build
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.sealing import Keyring, UnreadableBatchError

KEY, OTHER = b"k" * 32, b"o" * 32
CHECKSUM = slice(40, 48)

messages = st.lists(
    st.builds(
        Message,
        payload=st.binary(min_size=1, max_size=60),
        id=st.integers(0, (1 << 128) - 1),
        headers=st.binary(max_size=30),
    ),
    min_size=1,
    max_size=8,
)


def stamped(found: list[Message], offset: int = 0, timestamp_us: int = 77) -> bytearray:
    batch = build(found, origin_timestamp_us=5)
    assert kernel.admit(batch, 3, offset, timestamp_us) == 0
    return batch


def three() -> bytearray:
    return stamped([Message(b"first-payload", id=9, headers=b"and-headers"), Message(b"second")])


def log_of(batches: list[tuple[list[Message], bool]], keys: Keyring) -> tuple[bytes, bytes]:
    """A log in the clear, and the same with some batches encrypted."""
    plain, mixed, offset = bytearray(), bytearray(), 10
    for number, (found, is_sealed) in enumerate(batches):
        batch = stamped(found, offset, 1000 + number)
        plain += batch
        mixed += keys.seal(batch) if is_sealed else batch
        offset += len(found)
    return bytes(plain), bytes(mixed)


def checksum_of(sealed: bytes) -> bytes:
    """As the layout has it, by other means than the code that is tested."""
    body = Struct("<Q").pack(kernel.xxh3_64(sealed[256:]))
    return Struct("<Q").pack(kernel.xxh3_64(sealed[:40] + sealed[48:256] + body))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(messages, st.booleans()), min_size=1, max_size=6))
def test_a_mixed_log_is_walked_without_a_key_and_read_with_it(
    batches: list[tuple[list[Message], bool]],
) -> None:
    keys = Keyring(key=KEY)
    plain, mixed = log_of(batches, keys)
    assert len(mixed) == len(plain)
    assert keys.open(mixed) == plain
    known = kernel.scan(plain, 10, frames=True, index_bytes=0)
    assert sealing.scan(mixed, 10, frames=True, index_bytes=0) == known
    found = sealing.scan(mixed, 10, frames=True, index_bytes=500)
    assert msgspec.structs.replace(found, entries=known.entries) == known
    assert set(found.entries) <= set(known.entries)
    indexed = [position for _, _, position in found.entries]
    for _, _, position in known.entries:
        assert any(position - 500 < at <= position for at in indexed)
    for offset in range(9, found.next_offset + 1):
        assert kernel.locate(mixed, offset) == kernel.locate(plain, offset)
    for time_us in range(999, 1001 + len(batches)):
        assert kernel.locate_time(mixed, time_us) == kernel.locate_time(plain, time_us)


def test_a_log_torn_anywhere_ends_with_its_last_whole_batch() -> None:
    keys = Keyring(key=KEY)
    one = [Message(b"x" * 20)]
    _, mixed = log_of([(one, True), (one, False), (one, True)], keys)
    ends = [length * len(mixed) // 3 for length in (0, 1, 2, 3)]
    for size in range(len(mixed)):
        found = sealing.scan(mixed[:size], 10, frames=True, index_bytes=0)
        assert found.end == max(end for end in ends if end <= size)
        assert found.reason == (0 if size in ends else kernel.INCOMPLETE_TAIL)


def test_nothing_of_the_messages_is_in_the_clear() -> None:
    batch = three()
    sealed = bytes(Keyring(key=KEY).seal(batch))
    for secret in (b"first-payload", b"and-headers", b"second", (9).to_bytes(16, "little")):
        assert secret in batch
        assert secret not in sealed
    assert batch[256 : 256 + 8] not in sealed, "a checksum tells what a short message was"
    assert sealed[:40] == batch[:40]
    assert sealed[48:52] == batch[48:52]


def test_every_changed_byte_is_found_without_a_key() -> None:
    sealed = bytes(Keyring(key=KEY).seal(three()))
    assert sealed[CHECKSUM] == checksum_of(sealed)
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 0x40]) + sealed[at + 1 :]
        found = sealing.scan(changed, 0, frames=True, index_bytes=0)
        assert (found.end, found.reason != 0) == (0, True), at


def test_every_changed_byte_with_a_right_checksum_is_refused_with_the_key() -> None:
    keys = Keyring(key=KEY)
    sealed = bytes(keys.seal(three()))
    lengths, mark = range(32, 40), range(52, 56)  # those make it another batch, or none
    for at in range(len(sealed)):
        if at in lengths or at in mark or at in range(40, 48):
            continue
        changed = bytearray(sealed)
        changed[at] ^= 0x01
        changed[CHECKSUM] = checksum_of(bytes(changed))
        with pytest.raises(UnreadableBatchError):
            keys.open(changed)
    with pytest.raises(WireError, match="batch_length"):
        keys.open(sealed[:-1])


def test_a_batch_is_not_moved_to_another_place() -> None:
    keys = Keyring(key=KEY)
    moved = bytearray(keys.seal(three()))
    moved[0:8] = (4).to_bytes(8, "little")  # partition
    moved[CHECKSUM] = checksum_of(bytes(moved))
    assert sealing.scan(moved, 0, frames=True, index_bytes=0).reason == 0
    with pytest.raises(UnreadableBatchError, match="it was changed since"):
        keys.open(moved)


def test_a_scan_wants_the_next_offset() -> None:
    sealed = Keyring(key=KEY).seal(stamped([Message(b"x")], offset=7))
    assert sealing.scan(sealed, 7, frames=True, index_bytes=0).next_offset == 8
    assert sealing.scan(sealed, -1, frames=True, index_bytes=0).next_offset == 8
    assert sealing.scan(sealed, 6, frames=True, index_bytes=0).reason == ErrorCode.INVALID_OFFSET


def test_old_keys_read_and_a_missing_one_is_named() -> None:
    sealed = Keyring(key=OTHER).seal(batch := three())
    assert Keyring([OTHER], key=KEY).open(sealed) == batch
    assert Keyring([OTHER]).open(sealed) == batch
    for keys in (Keyring(key=KEY), Keyring()):
        with pytest.raises(UnreadableBatchError, match=sealing.id_of(OTHER)) as refused:
            keys.open(sealed)
    assert refused.value.code == ErrorCode.CANNOT_DECRYPT_DATA
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.offset, again.key_id, str(again)) == (0, sealing.id_of(OTHER), str(refused.value))


def test_a_keyring_tells_its_keys_by_their_ids() -> None:
    keys = Keyring([OTHER], key=KEY)
    assert (keys.key_id, keys.ids) == (
        sealing.id_of(KEY),
        (sealing.id_of(KEY), sealing.id_of(OTHER)),
    )
    assert sealing.key_id_of(keys.seal(three())) == keys.key_id
    assert sealing.key_id_of(three()) == sealing.key_id_of(b"") == Keyring([OTHER]).key_id == ""
    with pytest.raises(ValueError, match="32 bytes"):
        Keyring(key=b"short")


def nonce_and_salt(keys: Keyring) -> tuple[bytes, bytes]:
    sealed = keys.seal(three())
    return bytes(sealed[80:92]), bytes(sealed[64:80])


def test_no_nonce_is_used_twice_with_a_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCHES_MAX", 3)
    keys = Keyring(key=KEY)
    used = [nonce_and_salt(keys) for _ in range(7)]
    used += [nonce_and_salt(Keyring(key=KEY)) for _ in range(2)]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(nonce_and_salt(keys)))
    child.start()
    used.append(ours.recv())
    child.join()
    assert len(set(used)) == 10
    assert len({salt for _, salt in used}) == 3 + 2 + 1


def test_threads_open_beside_each_other() -> None:
    keys = Keyring(key=KEY)
    batches = [stamped([Message(bytes([number]) * 40_000)]) for number in range(8)]
    sealed = [keys.seal(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert [*threads.map(keys.open, sealed)] == batches


def test_keys_are_base64_of_32_bytes() -> None:
    assert sealing.parse_key(base64.b64encode(KEY).decode() + "\n") == KEY
    for wrong in ("", "secret!", base64.b64encode(b"short").decode(), "a" * 44):
        with pytest.raises(ValueError, match="base64 of 32 bytes") as refused:
            sealing.parse_key(wrong)
        assert not wrong or wrong not in str(refused.value)


def test_ciphers_of_many_processes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_CIPHERS_MAX", 2)
    reader = Keyring([KEY])
    region = b"".join(bytes(Keyring(key=KEY).seal(three())) for _ in range(5))
    assert reader.open(region) == bytes(three()) * 5
    assert len(reader._ciphers) <= 2
    assert os.getpid() != reader._process, "a reader makes no salt"
