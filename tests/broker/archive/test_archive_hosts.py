"""A real store by names of its own: buckets as virtual hosts, http, and https by an authority that
no machine knows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from iggy_broker.archive.bucket import SIGNED_BYTES_MIN, BucketPlace, BucketStore
from iggy_broker.archive.signed_reads import SignedReads
from iggy_broker.archive.store import ArchiveError, put_bytes
from object_store import ObjectStore
from server_certificates import authority

DATA = os.urandom(2 * SIGNED_BYTES_MIN)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("addressing", ["virtual", "auto"])
def test_what_was_put_by_name_is_read_by_a_signed_address(
    object_store: ObjectStore,
    hosts_place: BucketPlace,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    addressing: str,
) -> None:
    endpoint = object_store.named_endpoint(scheme)
    store = BucketStore(replace(hosts_place, endpoint=endpoint, addressing=addressing))
    found: list[bytes | None] = []
    read = SignedReads.read

    def seen(reads: SignedReads, key: str, size_bytes: int, position: int) -> bytes | None:
        found.append(read(reads, key, size_bytes, position))
        return found[-1]

    monkeypatch.setattr(SignedReads, "read", seen)
    store.check()
    put_bytes(store, "one", DATA)

    assert store.read("one", SIGNED_BYTES_MIN, 7) == DATA[7 : 7 + SIGNED_BYTES_MIN]
    assert found == [DATA[7 : 7 + SIGNED_BYTES_MIN]], "not by the library in its place"
    host = f"{hosts_place.bucket}." if addressing == "virtual" else ""
    assert store._sign("one").startswith(endpoint.replace("://", f"://{host}"))


@pytest.mark.parametrize("known", ["another", "none"])
def test_a_store_whose_authority_is_unknown_is_refused(
    hosts_place: BucketPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    put_bytes(BucketStore(hosts_place), "one", DATA)
    other = tmp_path / "other.crt"
    other.write_text(authority("another").pem)
    if known == "another":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(other))
    else:
        monkeypatch.delenv("AWS_CA_BUNDLE")
    store = BucketStore(hosts_place)

    with pytest.raises(ArchiveError, match="CERTIFICATE_VERIFY_FAILED"):
        store.check()
    with pytest.raises(ArchiveError, match="CERTIFICATE_VERIFY_FAILED"):
        store.read("one", SIGNED_BYTES_MIN, 0)
    signed = SignedReads(store._sign, connect_s=10, read_s=10)
    assert signed.read("one", SIGNED_BYTES_MIN, 0) is None
