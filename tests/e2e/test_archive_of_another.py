"""A broker that encrypts and archives to a second volume, and another one that is filled from
there: what was in the first one can be read in the second, and the first one goes on.
"""

from __future__ import annotations

import base64
import time
from itertools import islice

import pytest

from e2e_archive import LATE_S, figures
from e2e_broker import (
    BROKER,
    PARTITIONS,
    POD,
    STREAM,
    TOPIC,
    broker,
    everything,
    make,
    ours,
    root,
    send,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import (
    Login,
    Place,
    Producer,
    login_of,
    numbered,
    official_read,
    producing,
    service_address,
)
from e2e_topics import status
from e2e_watch import condition
from iggy_operator.desired.archive import ARCHIVE_FOLDER
from iggy_operator.desired.broker_config import DATA_FOLDER
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 5}
OTHER = "drill"
ARCHIVE_CLAIM = f"archive-{BROKER}-0"
KEYS = "main-keys"
INTERVAL_S = 1
BATCHES, ROWS = 40, 50
COPIED_S = 120.0
MORE = b'{"id": -1}'
COUNT = """
import pathlib, sys
files = [one.read_bytes() for one in pathlib.Path(sys.argv[1]).rglob("*") if one.is_file()]
print(sum(map(len, files)), sum(b'{"id": ' in one for one in files))
"""


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    keys = {name: base64.b64encode(name.encode() * 8).decode() for name in ("2026", "2027")}
    metadata = {"name": KEYS}
    operator.work.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}
    )
    archiver = {"kind": "Disk", "interval": f"{INTERVAL_S}s", "disk": {"size": "1Gi"}}
    first = broker(archiver=archiver, encryption={"secretName": KEYS, "key": "2026"})
    make(operator.work, first, stream(), topic())
    return operator.work


def other() -> Document:
    """Filled from the first one's archive, which it only reads; what is new has another key."""
    spec = broker(
        rootCredentialsSecretName=f"{BROKER}-root",
        restoreFrom={"disk": {"existingClaim": ARCHIVE_CLAIM}},
        encryption={"secretName": KEYS, "key": "2027", "oldKeys": ["2026"]},
    )["spec"]
    return ours("IggyBroker", OTHER, **spec)


def test_another_broker_has_what_the_first_one_archived(work: Kubectl) -> None:
    rows = islice(numbered(keys=8, rows=ROWS), BATCHES)
    with producing(Producer(root(work), STREAM, TOPIC, rows)) as producer:
        wait_until(lambda: producer.is_done, "everything is sent")
    wait_until_archived(work)

    make(work, other())

    found = official_read(login(work, OTHER), STREAM, TOPIC, PARTITIONS)
    assert found == producer.acknowledged
    assert len(found) == BATCHES * ROWS
    told = status(work, f"igb/{OTHER}")["restore"]
    assert told["complete"], told
    assert f"1 topics, 1 users and {BATCHES * ROWS:,} messages came back" in told["message"]


def test_both_go_on_by_themselves(work: Kubectl) -> None:
    before = everything(login(work, BROKER))

    send(login(work, OTHER), TOPIC, [MORE])
    send(login(work, BROKER), TOPIC, [MORE] * 2)

    theirs, own = (everything(login(work, name)) for name in (OTHER, BROKER))
    assert list(theirs.items() - before.items()) == [((0, first_free(before)), MORE)]
    assert len(own) == len(before) + 2
    wait_until_archived(work)
    assert condition(work.get("igb", BROKER), "ArchiveHealthy")["reason"] == "Synced"


def test_nothing_lies_in_the_clear(work: Kubectl) -> None:
    for pod, folder in ((POD, DATA_FOLDER), (POD, ARCHIVE_FOLDER), (f"{OTHER}-0", DATA_FOLDER)):
        size, in_the_clear = map(int, work.execute(pod, "python", "-c", COUNT, folder).split())
        assert size > BATCHES * ROWS * len(MORE), f"{pod} has messages in {folder}"
        assert not in_the_clear, f"{pod}, {folder}"


def login(kubectl: Kubectl, name: str) -> Login:
    """Root's, which both have."""
    return login_of(kubectl, f"{BROKER}-root", service_address(kubectl, name))


def first_free(found: dict[Place, bytes]) -> int:
    """The next offset of the first partition."""
    return sum(partition == 0 for partition, _ in found)


def wait_until_archived(kubectl: Kubectl) -> None:
    """What was acknowledged by now is in the first one's archive."""
    sent_s, pod = time.monotonic(), kubectl.get("pod", POD)

    def is_copied() -> bool:
        behind_s = figures(pod).behind_s
        return time.monotonic() - behind_s - INTERVAL_S - LATE_S > sent_s

    wait_until(is_copied, "everything is in the archive", COPIED_S)
