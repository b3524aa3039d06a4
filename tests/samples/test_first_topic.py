"""The program of docs/first-topic.md, on a real broker with the page's own resources."""

import os
import re
import subprocess
import sys
from pathlib import Path

from broker_process import PASSWORD, USERNAME, running_broker
from iggy_client.client import Client
from iggy_operator.resources import Topic, load
from iggy_wire.permissions import Permissions, StreamPermissions, TopicPermissions
from page_samples import ROOT, blocks

PAGE = ROOT / "docs" / "first-topic.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_program_sends_and_reads_as_the_pages_user(tmp_path: Path) -> None:
    first = next(block for block in blocks() if block.place.startswith("docs/first-topic.md"))
    file = tmp_path / "shop.yaml"
    file.write_text(first.text)
    (topic,) = load([file]).topics
    (program,) = PROGRAM.findall(PAGE.read_text())

    with running_broker(tmp_path / "broker", shards=1) as broker:
        environment = {"IGGY_USERNAME": "clerk", "IGGY_PASSWORD": make_clerk(broker.address, topic)}
        done = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:8090", broker.address)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.stdout == "sent 300 orders, 300 are there\n", done.stderr


def make_clerk(address: str, topic: Topic) -> str:
    """What the operator would make: stream, topic, and a user with the page's rights."""
    password = "a-password-of-the-clerk"
    with Client.connect(address, USERNAME, PASSWORD) as client:
        stream_id = client.create_stream("shop").id
        topic_id = client.create_topic("shop", topic.topic_name, topic.partitions_count).topic.id
        allowed = TopicPermissions(topic_id, read_topic=True, send_messages=True)
        permissions = Permissions(streams=(StreamPermissions(stream_id, topics=(allowed,)),))
        client.create_user("clerk", password, permissions=permissions)
    return password
