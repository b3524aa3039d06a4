"""A broker that is killed: changes of metadata and stored offsets that were answered are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning


def test_acknowledged_changes_and_offsets_survive_a_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as client:
            for number in range(20):
                client.create_stream(f"s{number}")
                client.create_topic(f"s{number}", "t", 2)
                client.send(f"s{number}", "t", Partitioning.partition(1), [Message(b"m")] * 5)
                client.store_offset("c", f"s{number}", "t", 1, 3)
                client.create_group(f"s{number}", "t", "g")
            client.delete_stream("s7")
        broker.kill()
        broker.start()
        with broker.client() as client:
            names = {stream.name for stream in client.get_streams()}
            assert names == {f"s{number}" for number in range(20) if number != 7}
            for name in names:
                stored = client.get_offset("c", name, "t", 1)
                assert stored is not None and (stored.current_offset, stored.stored_offset) == (
                    4,
                    3,
                )
                assert [group.name for group in client.get_groups(name, "t")] == ["g"]
            with pytest.raises(ClientError):
                client.send("s7", "t", Partitioning.partition(1), [Message(b"m")])
        assert broker.stop() == 0
    finally:
        broker.end()
