"""Messages that rotted on the disk, asked for over HTTP: an error, and not "nothing more"."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_process import BrokerProcess
from http_client import TOPIC, http_client

PATH = "/streams/s/topics/t"


@pytest.mark.parametrize("is_strict", [False, True])
def test_damage_is_told_where_nothing_can_be_delivered(tmp_path: Path, is_strict: bool) -> None:
    settings = {
        "IGGY_HTTP_STRICT_COMPAT": str(is_strict).lower(),
        "IGGY_SYSTEM_SEGMENT_VALIDATE_CHECKSUM": "true",  # all is read at a start
    }
    broker = BrokerProcess(tmp_path, shards=2, transports=["http"], settings=settings).start()
    try:
        with http_client(broker) as http:
            http.post("/streams", {"name": "s"})
            http.post("/streams/s/topics", TOPIC | {"name": "t", "partitions_count": 2})
            for partition in range(2):
                http.send(PATH, b"good", partition=partition)
                http.send(PATH, b"to be damaged", partition=partition)
        broker.stop()
        for log in broker.data.rglob("*.log"):
            data = log.read_bytes()
            log.write_bytes(data.replace(b"to be damaged", b"to be dAmaged"))
        broker.start()
        with http_client(broker) as http:
            for partition in range(2):  # one of them is another shard's, if not both
                where = f"{PATH}/messages?partition_id={partition}"
                assert http.payloads(PATH, f"partition_id={partition}") == [b"good"]
                assert http.get(f"{where}&value=9")["count"] == 0
                for query in ("value=1", "kind=last&count=1", "kind=next&consumer_id=me"):
                    store = {"consumer_id": "me", "partition_id": partition, "offset": 0}
                    assert http.ask("PUT", f"{PATH}/consumer-offsets", store).status == 204
                    answer = http.ask("GET", f"{where}&{query}")
                    if is_strict:
                        assert (answer.status, answer.json["count"]) == (200, 0)
                    else:
                        assert answer.error == (400, 4039), query
    finally:
        broker.end()
