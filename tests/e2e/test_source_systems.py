"""Sources of other systems in pods, files of a store and tables of PostgreSQL: their drivers go in
the middle of their work, and nothing is missing or there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

import e2e_store
import stored
from e2e_broker import PARTITIONS, STREAM, broker, make, root, small_driver, stream, topic
from e2e_drivers import driver, runs_anew
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_topics import connected, status
from e2e_watch import most_at_once, watching
from iggy_wire.batch import Message
from object_store import ObjectStore
from postgres import DATABASE, PASSWORD, USERNAME, Postgres, running_postgres
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
BUCKET, FOLDER = "inbox", "orders"
TABLE, POSTGRES_PORT = "public.orders", 5432
TOPICS = ("files", "rows")
EARLIER, LATER = 2000, 1000
"""What is there for the first driver, and what comes when it goes."""
BATCH_ROWS = 100
READY_S, CARRIED_S, ANOTHER_WITHIN_S = 240.0, 240.0, 60.0

Note = Callable[[str], None]


@pytest.fixture(scope="module")
def postgres(machine_address: str) -> Iterator[Postgres]:
    """A real PostgreSQL on this machine, with an empty table."""
    with running_postgres(host=machine_address, fsync="off", wal_level="logical") as found:
        found.run(f"create table {TABLE} (id int primary key, state text not null)")
        yield found


@pytest.fixture(scope="module")
def work(operator: Operator, store: ObjectStore, postgres: Postgres) -> Kubectl:
    """With both sources, which have nothing to do yet."""
    store.make_bucket(BUCKET)
    e2e_store.serve(operator.work, store)
    login = {"username": USERNAME, "password": PASSWORD}
    metadata = {"name": "pg-login"}
    operator.work.apply(
        *e2e_store.service("postgres", postgres, port=POSTGRES_PORT),
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": login},
    )
    make(operator.work, broker(), stream())
    make(operator.work, *(topic(name, sources=[entry(name)]) for name in TOPICS))
    slots = "select 1 from pg_replication_slots where confirmed_flush_lsn is not null"
    wait_until(lambda: postgres.run(slots), "the slot: what comes from now on is told", READY_S)
    return operator.work


def entry(name: str) -> Document:
    """Small batches, so that a driver goes between them."""
    url = f"postgresql://postgres:{POSTGRES_PORT}/{DATABASE}"
    files = {"path": f"s3a://{BUCKET}/{FOLDER}", "settle": "1s", "s3": e2e_store.reached()}
    tables = {"url": url, "tables": [TABLE], "credentialsSecretName": "pg-login"}
    kinds: dict[str, Document] = {
        "files": {"type": "Files", "files": files},
        "rows": {"type": "Postgres", "postgres": tables},
    }
    return {
        "name": "in",
        **kinds[name],
        "maxMessagesPerTrigger": BATCH_ROWS,
        "trigger": {"interval": "500ms"},
        "checkpoint": {"volume": {"size": "1Gi", "accessMode": "ReadWriteOnce"}},
        "spark": small_driver(),
    }


def test_what_other_systems_have_arrives_once_though_drivers_go(
    work: Kubectl, store: ObjectStore, postgres: Postgres, measured: Note
) -> None:
    with (
        watching(work, "pods", "--selector", selector("files")) as readers,
        watching(work, "pods", "--selector", selector("rows")) as askers,
    ):
        put(store, "a.jsonl", range(EARLIER))
        insert(postgres, range(EARLIER))
        old, at_the_end = {}, {}
        for name in TOPICS:
            wait_until(lambda one=name: len(arrived(work, one)) > 0, f"{name} begin", CARRIED_S)
            old[name] = driver(work, selector(name))
            work("delete", "pod", old[name]["metadata"]["name"], "--wait=false")
            at_the_end[name] = len(arrived(work, name))
        put(store, "b.jsonl", range(EARLIER, EARLIER + LATER))
        insert(postgres, range(EARLIER, EARLIER + LATER))
        postgres.run(f"update {TABLE} set state = 'paid' where id < {BATCH_ROWS}")
        for name in TOPICS:
            wait_until(
                lambda one=name: runs_anew(work, selector(one), old[one]),
                f"another driver of {name}",
                ANOTHER_WITHIN_S,
            )
        wanted = {"files": lines(EARLIER + LATER), "rows": changes()}
        for name in TOPICS:
            wait_until(
                lambda one=name: told(work, one) >= wanted[one],
                lambda one=name: f"{one}: {len(wanted[one] - told(work, one))} are missing",
                CARRIED_S,
            )

    for name in TOPICS:
        found = arrived(work, name)
        assert at_the_end[name] < len(wanted[name]), "it was in the middle of its work"
        assert told(work, name) == wanted[name]
        # What was sent twice has its id: whoever reads tells it by that.
        assert len({message.id for message in found}) == len(wanted[name])
        assert len({(message.id, message.payload) for message in found}) == len(wanted[name])
        measured(f"{name}: {len(found)} messages for {len(wanted[name])} after another driver")
    assert (most_at_once(readers), most_at_once(askers)) == (1, 1)


def test_what_is_deleted_later_comes_too(work: Kubectl, postgres: Postgres) -> None:
    postgres.run(f"delete from {TABLE} where id = 0")

    wait_until(lambda: ("delete", 0, "") in told(work, "rows"), "the deletion", CARRIED_S)
    for name in TOPICS:
        work.wait(f"igsrc/{name}.in", "condition=Ready", within_s=READY_S)
        assert status(work, f"igsrc/{name}.in")["application"]["driverPod"]


def line(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def put(store: ObjectStore, name: str, ids: range) -> None:
    """A file of JSON lines."""
    body = b"".join(line(number) + b"\n" for number in ids)
    store.client().put_object(Bucket=BUCKET, Key=f"{FOLDER}/{name}", Body=body)


def insert(postgres: Postgres, ids: range) -> None:
    """Each row in a transaction of its own."""
    with postgres.connect() as connection:
        text = f"insert into {TABLE} values (%s, 'new')"
        connection.cursor().executemany(text.encode(), [(number,) for number in ids])


def lines(count: int) -> set[object]:
    return {("line", number, "") for number in range(count)}


def changes() -> set[object]:
    """Every row that came, and every one that changed."""
    return {
        *(("row", number, "new") for number in range(EARLIER + LATER)),
        *(("row", number, "paid") for number in range(BATCH_ROWS)),
    }


def told(kubectl: Kubectl, name: str) -> set[object]:
    """What the messages of a topic say, each once."""
    return {saying(json.loads(message.payload)) for message in arrived(kubectl, name)}


def saying(value: Document) -> tuple[str, int, str]:
    if "op" not in value:
        return "line", value["id"], ""
    if value["op"] == "delete":
        return "delete", value["key"]["id"], ""
    return "row", value["after"]["id"], value["after"]["state"]


def arrived(kubectl: Kubectl, name: str) -> list[Message]:
    with connected(root(kubectl)) as client:
        return [
            message
            for partition in range(PARTITIONS)
            for message in stored.read_messages(client, STREAM, name, partition)
        ]


def selector(name: str) -> str:
    return f"iggykube.dev/source={name}.in"
