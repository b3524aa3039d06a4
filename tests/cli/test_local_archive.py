"""A local broker archives, encrypts, and comes back from its archive, as in a cluster."""

import base64
import os
import shutil
from pathlib import Path

from iggykube.local import LocalInstance
from local_instances import client_of, local_instance
from stored import read_all, send
from waiting import wait_until

KEY = base64.b64encode(os.urandom(32)).decode()
SECRET_TEXT = os.urandom(16).hex().encode()
SHOP = f"""\
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{key: "{KEY}"}}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyBroker
metadata: {{name: iggy}}
spec:
  archiver: {{kind: Disk, interval: 100ms}}
  restoreFrom: {{}}
  encryption: {{secretName: keys}}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {{name: shop}}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {{name: orders}}
spec:
  streamRef: {{name: shop}}
"""


def test_a_lost_directory_of_the_broker_comes_back(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP) as running:
        running.start()
        assert not any("came back" in note for note in running.notes)
        with client_of(running) as client:
            send(client, "shop", "orders", SECRET_TEXT)
        wait_until(lambda: is_archived(running), "it is copied")
        data, archive = running.folders.broker, running.folders.claims
    shutil.rmtree(data)

    with local_instance(tmp_path, SHOP) as again:
        again.start()
        with client_of(again) as client:
            assert read_all(client, "shop", "orders") == [SECRET_TEXT]
        assert [note for note in again.notes if note.startswith("1 streams, 1 topics and 1 mess")]

    for folder in (data, archive):
        files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        assert files
        assert not any(SECRET_TEXT in content for content in files), "nothing is in the clear"


def is_archived(running: LocalInstance) -> bool:
    """The message, and the metadata of its topic."""
    found = running.folders.claims / "default" / "archive-iggy-0" / "archive"
    names = {path.name for path in found.rglob("*")}
    return any(name.endswith(".part") for name in names) and has_topic(found / "metadata")


def has_topic(metadata: Path) -> bool:
    snapshot = metadata / "snapshot"
    return snapshot.exists() and b"orders" in snapshot.read_bytes()
