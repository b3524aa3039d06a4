"""Settings of simulated brokers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from iggy_broker.config import Config
from iggy_broker.config_values import Secret

ROOT = "/mnt/data"
USERNAME, PASSWORD = "iggy", "secret-of-tests"
SEGMENT_BYTES = 48 * 1024
ARCHIVED_SEGMENT_BYTES = 12 * 1024  # more of them
SLOTS = 1024


ARCHIVER_INTERVAL_S = 0.1
POLICIES: dict[str, dict[str, bool]] = {
    "no archive": {"enabled": False},
    "archive, continuous": {"continuous": True},
    "archive, when due": {},
    "archive, not waited for": {"archive_expired": False},
}


def small_config(policy: str) -> Config:
    """Settings under which files roll, fold and sync often."""
    replace = msgspec.structs.replace
    config = Config()
    system = config.system
    partition = system.partition
    archived = POLICIES[policy].get("enabled", True)
    segment_bytes = ARCHIVED_SEGMENT_BYTES if archived else SEGMENT_BYTES
    saver = replace(partition.message_saver, interval_us=3_000_000)
    system = replace(
        system,
        path=Path(ROOT),
        partition=replace(partition, message_saver=saver),
        segment=replace(system.segment, size_bytes=segment_bytes),
        sharding=replace(system.sharding, shutdown_drain_timeout_us=2_000_000),
    )
    quick_scrub = replace(
        config.data_maintenance.scrub, interval_us=500_000, rate_bytes=1024 * 1024
    )
    maintenance = config.data_maintenance
    archiver = replace(
        maintenance.archiver,
        **{"enabled": True, "interval_us": int(ARCHIVER_INTERVAL_S * 1e6)} | POLICIES[policy],
    )
    messages = replace(maintenance.messages, interval_us=200_000)
    maintenance = replace(maintenance, scrub=quick_scrub, archiver=archiver, messages=messages)
    return replace(
        config,
        consumer_group=replace(config.consumer_group, rebalancing_timeout_us=400_000),
        monitoring=replace(config.monitoring, enabled=False),
        quic=replace(config.quic, enabled=False),
        websocket=replace(config.websocket, enabled=False),
        data_maintenance=maintenance,
        metadata=replace(config.metadata, journal_slots=12),
        root=replace(config.root, username=USERNAME, password=Secret(PASSWORD)),
        system=system,
    )
