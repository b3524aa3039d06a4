"""Sink Mongo against a played server: trouble, refusals, wrong settings, and what a check finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mongo_cases
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import mongo_server
from mongo_cases import AWAY, INVALID, CollectionTarget, sent, write
from played_mongo import CLOSED, LOST, Document, PlayedMongo
from sink_cases import PlayedTask, declare, portions, wanted
from tls_front import authority, tls_front

server, target = mongo_cases.server, mongo_cases.target

LABELLED = {"ok": 0, "code": 4711, "errmsg": "busy", "errorLabels": ["RetryableWriteError"]}
UNSURE = {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}


@pytest.mark.parametrize("fault", [LOST, CLOSED, AWAY, LABELLED, UNSURE])
@pytest.mark.parametrize("block", [{}, {"id_from": "Field", "id_field": "customer"}])
def test_trouble_is_waited_for(
    fault: str | Document, block: dict[str, Any], server: PlayedMongo
) -> None:
    target = CollectionTarget(server, **block)
    server.faults += [fault, fault]

    task = write(target, 3)

    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []
    assert len(server.writes) == 3


def test_only_what_was_put_off_is_sent_again(server: PlayedMongo, target: CollectionTarget) -> None:
    busy = [1]
    conflict = {"code": 112, "errmsg": "WriteConflict"}

    def judge(document: Document) -> Document | None:
        return conflict if document["iggy_offset"] == 1 and busy and busy.pop() else None

    server.judge = judge
    task = write(target, 3)

    assert sent(server) == [[0, 1, 2], [1]]
    assert task.refusals == []


def test_a_refusal_is_told_with_the_servers_words(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    server.judge = lambda document: INVALID if document["iggy_offset"] == 1 else None

    task = write(target, 3)

    (refusal,) = task.refusals
    assert (refusal.offset, refusal.stage) == (1, "write")
    assert refusal.kind == "DocumentValidationFailure"
    assert refusal.message.startswith("121 Document failed validation {'details': ")
    assert len(server.writes) == 1  # not tried again


def test_a_unique_index_of_somebody_else_refuses(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    """Not every duplicate is a document that is there already."""
    taken = {"code": 11000, "errmsg": "E11000 duplicate key error collection: shop.orders index: n"}
    told = taken | {"keyPattern": {"number": 1}}
    server.judge = lambda document: {0: taken, 2: told}.get(document["iggy_offset"])

    task = write(target, 3)

    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (0, "DuplicateKey"),
        (2, "DuplicateKey"),
    ]


def test_a_server_that_does_not_say_which_index_is_asked(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    write(target, 2)
    vague = {"code": 11000, "errmsg": "E11000 duplicate key error collection: shop.orders"}
    server.judge = lambda document: vague if document["iggy_offset"] in (1, 2) else None

    task = write(target, 4)

    assert [bad.offset for bad in task.refusals] == [2]
    assert target.rows() == [(0, 0), (0, 1), (0, 3)]


@pytest.mark.parametrize(
    ("code", "field"), [(13, "mongo.credentialsPath"), (26, "mongo.collection")]
)
def test_settings_of_the_server_are_no_bad_message(
    code: int, field: str, server: PlayedMongo, target: CollectionTarget
) -> None:
    server.faults.append({"ok": 0, "code": code, "errmsg": "no"})
    task, span = PlayedTask(), wanted(0, 3)

    with pytest.raises(SinkError, match=f"^{field}: "):
        target.sink().write_task(span, portions(span), task)

    assert task.refusals == []
    assert len(server.writes) == 1


def test_the_login_is_checked(server: PlayedMongo, tmp_path: Path) -> None:
    server.login = ("writer", "right secret")
    (tmp_path / "username").write_text("writer\n")
    (tmp_path / "password").write_text("wrong secret")
    target = CollectionTarget(server, credentials_path=str(tmp_path))

    with pytest.raises(OptionError, match=r"^mongo\.credentialsPath: .* let this login") as error:
        target.sink().check()

    assert "wrong secret" not in str(error.value)
    (tmp_path / "password").write_text("right secret\n")
    target.sink().check()
    write(target, 3)
    assert len(server.documents()) == 3
    (tmp_path / "username").unlink()
    with pytest.raises(OptionError, match=r"mongo\.credentialsPath: needs the files username and"):
        target.sink().check()


def test_the_authority_is_trusted_and_no_other(
    server: PlayedMongo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_server, "CONNECT_TIMEOUT_MS", 500)
    ours, other = (authority(tmp_path / name, "127.0.0.1") for name in ("ours", "other"))
    ca = tmp_path / "ca"
    ca.mkdir()
    with tls_front(server.address, ours) as front:
        url = f"mongodb://{front.address}/?directConnection=true"
        target = CollectionTarget(server, url=url, ca_path=str(ca))
        (ca / "ca.crt").write_text(ours.pem)
        target.sink().check()
        write(target, 3)

        (ca / "ca.crt").write_text(other.pem)
        with pytest.raises(SinkError, match="certificate verify failed"):
            target.sink().check()

        (ca / "ca.crt").write_text("nothing")
        with pytest.raises(OptionError, match=r"^mongo\.caPath: "):
            target.sink().check()
    assert len(server.documents()) == 3


@pytest.mark.parametrize("kind", ["view", "timeseries"])
def test_a_collection_must_be_a_plain_one(
    kind: str, server: PlayedMongo, target: CollectionTarget
) -> None:
    target.sink().check()  # there is none yet
    server.kinds["orders"] = "collection"
    target.sink().check()

    server.kinds["orders"] = kind
    with pytest.raises(OptionError, match=rf"^mongo\.collection: shop\.orders is a {kind}"):
        target.sink().check()


def test_the_check_does_not_wait_for_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mongo_server, "CONNECT_TIMEOUT_MS", 300)
    with PlayedMongo() as gone:
        pass

    with pytest.raises(SinkError, match=gone.address) as error:
        CollectionTarget(gone, seconds=600).sink().check()

    assert "Topology" not in str(error.value)


@pytest.mark.parametrize(
    ("block", "payload", "field"),
    [
        ({"id_from": "Field"}, declare(), r"mongo\.idField"),
        ({"id_field": "customer"}, declare(), r"mongo\.idField"),
        ({"id_from": "Field", "id_field": "amount"}, declare(), r"mongo\.idField"),
        ({}, declare(text="_id BIGINT"), r"mongo\.idField"),
        ({"url": "mongodb://writer:secret@mongo"}, declare(), r"^mongo\.url: a login stands in it"),
    ],
)
def test_settings_that_cannot_be(
    block: dict[str, Any], payload: Payload, field: str, server: PlayedMongo
) -> None:
    with pytest.raises(OptionError, match=field):
        CollectionTarget(server, **block).sink(payload)


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"url": "mongodb://h:x"}, r"mongo\.url"),
        ({"database": "a.b"}, r"mongo\.collection"),
        ({"ca_path": "/nowhere"}, r"mongo\.caPath"),
    ],
)
def test_settings_that_the_check_finds(
    block: dict[str, Any], field: str, server: PlayedMongo
) -> None:
    with pytest.raises(OptionError, match=field):
        CollectionTarget(server, **block).sink().check()
