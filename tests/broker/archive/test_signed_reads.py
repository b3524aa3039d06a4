"""Long stretches of a bucket's objects: by signed addresses, and by the library when that fails."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from iggy_broker.archive import signed_reads
from iggy_broker.archive.bucket import SIGNED_BYTES_MIN, BucketPlace, BucketStore
from iggy_broker.archive.signed_reads import SignedReads
from iggy_broker.archive.store import put_bytes
from object_store import ObjectStore
from played_server import LOST, Fault, Reply, Request
from store_front import StoreFront
from tls_front import authority, tls_front

DATA = random.Random(1).randbytes(3 * SIGNED_BYTES_MIN)


class ReadFront(StoreFront):
    """`faults` are for requests with a signed address."""

    def carries(self, request: Request) -> bool:
        return is_signed(request)

    @property
    def signed(self) -> int:
        """So many were asked for by address."""
        return sum(map(is_signed, list(self.seen)))


def is_signed(request: Request) -> bool:
    return request.method == "GET" and "X-Amz-Signature" in request.path


def stored(front: ReadFront, place: BucketPlace) -> BucketStore:
    store = BucketStore(replace(place, endpoint=front.url))
    put_bytes(store, "one", DATA)
    return store


def test_stretches_are_read_by_one_address(object_store: ObjectStore, place: BucketPlace) -> None:
    with ReadFront(object_store) as front:
        store = stored(front, place)
        for position in (0, 7, len(DATA) - SIGNED_BYTES_MIN - 5):
            end = position + SIGNED_BYTES_MIN
            assert store.read("one", SIGNED_BYTES_MIN, position) == DATA[position:end]
        assert store.read("one", 2 * len(DATA), 100) == DATA[100:]
        assert len({one.path for one in front.seen if is_signed(one)}) == 1
        assert front.signed == 4
        assert store.read("one", 10, 5) == DATA[5:15]
        assert front.signed == 4, "short ones are the library's"


def test_what_is_not_there_is_told_as_ever(object_store: ObjectStore, place: BucketPlace) -> None:
    with ReadFront(object_store) as front:
        store = stored(front, place)
        with pytest.raises(FileNotFoundError, match="another"):
            store.read("another", len(DATA), 0)
        assert store.read("one", len(DATA), len(DATA)) == b""
        assert store.read("one", len(DATA), 0) == DATA
        assert front.signed == 3, "that is no trouble"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Reply(403), id="the_login_ended"),
        pytest.param(Reply(503), id="overload"),
        pytest.param(Reply(200, DATA), id="stretches_are_not_understood"),
        pytest.param(Reply(206, DATA + b"x"), id="too_much"),
        pytest.param(LOST, id="cut"),
    ],
)
def test_what_fails_is_the_librarys_for_a_while(
    object_store: ObjectStore, place: BucketPlace, fault: Fault
) -> None:
    with ReadFront(object_store) as front:
        store = stored(front, place)
        front.faults.append(fault)
        for _ in range(3):
            assert store.read("one", len(DATA), 0) == DATA
        assert front.signed == 1


def test_after_the_rest_addresses_are_tried_again(
    object_store: ObjectStore, place: BucketPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_reads, "REST_S", -1.0)
    with ReadFront(object_store) as front:
        store = stored(front, place)
        front.faults.append(Reply(503))
        for _ in range(2):
            assert store.read("one", len(DATA), 0) == DATA
        assert front.signed == 2


def test_an_address_is_signed_anew(
    object_store: ObjectStore, place: BucketPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_reads, "FRESH_S", -1)
    with ReadFront(object_store) as front:
        store = stored(front, place)
        for _ in range(2):
            assert store.read("one", len(DATA), 0) == DATA
        assert front.signed == 2


def signed_reads_of(url: str) -> SignedReads:
    return SignedReads(lambda key: f"{url}/{key}?X-Amz-Signature=1", connect_s=5, read_s=0.2)


@pytest.mark.parametrize("way", ["read", "read_into"])
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Content-Length": str(len(DATA))}, id="half"),
        pytest.param({"Transfer-Encoding": "chunked", "Content-Length": "7"}, id="of_no_length"),
        pytest.param({"Content-Length": "much"}, id="of_a_strange_length"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(
    object_store: ObjectStore, way: str, headers: dict[str, str]
) -> None:
    with ReadFront(object_store) as front:
        reads = signed_reads_of(front.url)
        front.faults.append(Reply(206, DATA[:100], headers))
        if way == "read":
            assert reads.read("one", len(DATA), 0) is None
        else:
            assert reads.read_into("one", [memoryview(bytearray(len(DATA)))], 0) is None


def test_a_stretch_fills_memory_piece_by_piece(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    with ReadFront(object_store) as front:
        store = stored(front, place)
        first, second = bytearray(100_000), bytearray(SIGNED_BYTES_MIN)
        pieces = [memoryview(first), memoryview(second)]
        assert store.read_into("one", pieces, 5) == len(first) + len(second)
        assert first + second == DATA[5 : 5 + len(first) + len(second)]
        assert store.read_into("one", pieces, len(DATA) - 100_010) == 100_010
        assert first + second[:10] == DATA[-100_010:]
        assert front.signed == 2


def test_a_connection_that_was_ended_meanwhile_is_made_anew(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    with ReadFront(object_store) as front:
        store = stored(front, place)
        assert store.read("one", len(DATA), 0) == DATA
        front.faults.append(LOST)
        assert store.read("one", len(DATA), 0) == DATA
        assert store.read("one", len(DATA), 0) == DATA
        assert front.signed == 4, "that is no trouble"


def test_a_store_may_end_the_connection_after_each_answer(object_store: ObjectStore) -> None:
    with ReadFront(object_store) as front:
        reads = signed_reads_of(front.url)
        front.faults.extend([Reply(206, DATA, {"Connection": "close"})] * 3)
        for _ in range(3):
            assert reads.read("one", len(DATA), 0) == DATA


def test_a_store_must_be_who_it_says_it_is(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = authority(tmp_path, "127.0.0.1")
    with ReadFront(object_store) as behind, tls_front(urlsplit(behind.url).netloc, made) as front:
        url = f"https://{front.address}"
        assert signed_reads_of(url).read("one", len(DATA), 0) is None
        assert not behind.seen
        monkeypatch.setenv("AWS_CA_BUNDLE", str(made.certificate))
        reads, memory = signed_reads_of(url), memoryview(bytearray(len(DATA)))
        behind.faults.extend([Reply(206, DATA)] * 2)
        for _ in range(2):
            assert reads.read_into("one", [memory[:9], memory[9:]], 0) == len(DATA)
            assert memory == DATA
        assert front.connections <= 2, "the second read is on the connection of the first"
