"""What of a managed broker's spec cannot be had: each is named, with the way out."""

from typing import Any

import pytest

from desired_cases import broker_of
from iggy_operator.desired import broker_config


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"shards": {"pinCores": True}}, "shards.pinCores"),
        (
            {"archiver": {"kind": "Disk", "disk": {"existingClaim": "data-main-0"}}},
            "archiver.disk.existingClaim: data-main-0 is the volume of the data",
        ),
        (
            {"restoreFrom": {"disk": {"existingClaim": "data-main-0"}}},
            "restoreFrom.disk.existingClaim",
        ),
        ({"restoreFrom": {"s3": {"bucket": "abc"}, "full": False}}, "restoreFrom.full"),
        ({"config": {"archiver.enabled": "true"}}, "archiver.enabled is set by the operator"),
        ({"config": {"data_maintenance.archiver.s3.bucket": "abc"}}, "is set by the operator"),
        ({"config": {"system.encryption.key": "x"}}, "encryption.key is set by the operator"),
        ({"config": {"tcp.tls.enabled": "true"}}, "tcp.tls.enabled is set by the operator"),
        (
            {"listeners": {"tls": {"secretName": "c"}}, "config": {"http.tls.ca_file": "x"}},
            "http.tls.ca_file is set by the operator",
        ),
        (
            {"listeners": {"websocketPort": 8092}, "config": {"websocket.enabled": "false"}},
            "websocket.enabled is set by the operator",
        ),
        (
            {
                "listeners": {"quicPort": 8080},
                "podTemplate": {"extraEnv": [{"name": "IGGY_QUIC_ADDRESS", "value": "x"}]},
            },
            "IGGY_QUIC_ADDRESS is set by the operator",
        ),
        ({"config": {"sharding.cpu_allocation": "9"}}, "sharding.cpu_allocation"),
        ({"config": {"path": "/"}}, "path is set by the operator"),
        ({"config": {"system_path": "/"}}, "system_path is set by the operator"),
        ({"config": {"tcp_address": "x"}}, "tcp_address is set by the operator"),
        ({"config": {"config.path": "x"}}, "config.path is set by the operator"),
        ({"config": {"root.password": "x"}}, "root.password is set by the operator"),
        ({"config": {"A=B": "x"}}, "is no key"),
        ({"config": {"system.segment.size": "1", "segment.size": "2"}}, "are one setting"),
        ({"resources": {"limits": {"cpu": "lots"}}}, "resources.limits.cpu"),
        ({"podTemplate": {"extraEnv": [{"name": "IGGY_PATH", "value": "/"}]}}, "IGGY_PATH"),
        (
            {"podTemplate": {"extraEnv": [{"name": "IGGY_ROOT_PASSWORD", "value": "/"}]}},
            "IGGY_ROOT_PASSWORD",
        ),
    ],
)
def test_what_cannot_be_had_is_said(spec: dict[str, Any], words: str) -> None:
    found = broker_config.problems(broker_of(**spec))

    assert len(found) == 1
    assert words in found[0]
    assert ": " in found[0]
