"""The numbers that clients of Apache Iggy rely on: limits, defaults, intervals."""

from __future__ import annotations

import pytest

from iggy_broker import config
from iggy_broker.config_values import UNLIMITED
from iggy_broker.metadata import model, options
from iggy_broker.net import edge, passwords
from iggy_wire import errors, kernel_types

CONFIG = config.load(None, {}).config
FOREVER = (1 << 64) - 1


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        (model.STREAMS_MAX, 1_048_576),
        (model.TOPICS_PER_STREAM_MAX, 4_096),
        (model.PARTITIONS_PER_TOPIC_MAX, 1_000_000),
        (model.PARTITIONS_PER_REQUEST_MAX, 1_000),
        (model.NAME_BYTES_MAX, 255),
        (passwords.USERNAME_BYTES, range(3, 51)),
        (passwords.PASSWORD_BYTES, range(3, 101)),
        (kernel_types.PAYLOAD_BYTES_MAX, 64_000_000),
        (kernel_types.HEADERS_BYTES_MAX, 100_000),
        (options.SEGMENT_BYTES_MIN, 1 << 20),
        (options.SEGMENT_BYTES_MAX, 1 << 30),
        (options.SEGMENT_BYTES_STEP, 512),
        (options.SAVE_MESSAGES_MAX, 16 << 20),
        (options.SAVE_BYTES_MAX, 1 << 30),
        (edge.HEARTBEAT_STEP * edge.SILENT_STEPS_MAX, pytest.approx(1.2)),
    ],
)
def test_limits(limit: object, value: object) -> None:
    assert limit == value


def test_defaults() -> None:
    node = options.node_settings(CONFIG)

    assert CONFIG.message_bus.max_message_size_bytes == 64 << 20
    assert CONFIG.tcp.address.port == 8090
    assert CONFIG.root.username == "iggy"
    assert node.segment_size_bytes == 1 << 30
    assert (node.message_expiry_us, node.max_topic_size_bytes) == (FOREVER, FOREVER)
    assert UNLIMITED == FOREVER
    assert node.messages_required_to_save == 1024
    assert node.size_of_messages_required_to_save_bytes == 1 << 20
    assert not node.enforce_fsync
    assert CONFIG.heartbeat.interval_us == 30_000_000
    assert CONFIG.personal_access_token.max_tokens_per_user == 100
    assert CONFIG.personal_access_token.cleaner.interval_us == 60_000_000


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("INVALID_COMMAND", 3), ("FEATURE_UNAVAILABLE", 5), ("INVALID_IDENTIFIER", 6),
        ("DISCONNECTED", 8), ("RESOURCE_NOT_FOUND", 20), ("STALE_CLIENT", 30),
        ("UNAUTHENTICATED", 40), ("UNAUTHORIZED", 41), ("INVALID_CREDENTIALS", 42),
        ("USER_ALREADY_EXISTS", 46), ("INVALID_PERSONAL_ACCESS_TOKEN", 53),
        ("TRANSIENT_NOT_COMMITTED", 57), ("TRANSIENT_NOT_ACCEPTED", 58),
        ("REQUEST_ALREADY_APPLIED", 59), ("STREAM_ID_NOT_FOUND", 1009),
        ("STREAM_NAME_NOT_FOUND", 1010), ("STREAM_NAME_ALREADY_EXISTS", 1012),
        ("TOPIC_ID_NOT_FOUND", 2010), ("TOPIC_NAME_NOT_FOUND", 2011),
        ("TOPIC_NAME_ALREADY_EXISTS", 2013), ("PARTITION_NOT_FOUND", 3007),
        ("CONSUMER_OFFSET_NOT_FOUND", 3021), ("TOO_MANY_CONSUMER_OFFSETS", 3024),
        ("INVALID_OFFSET", 4100), ("SEGMENT_SIZE_MISMATCH_AT_OPEN", 4102),
        ("CONSUMER_GROUP_ID_NOT_FOUND", 5000), ("CONSUMER_GROUP_NAME_NOT_FOUND", 5003),
        ("CONSUMER_GROUP_NAME_ALREADY_EXISTS", 5004), ("CONSUMER_GROUP_MEMBER_NOT_FOUND", 5006),
        ("INCOMPATIBLE_PROTOCOL_VERSION", 14003),
    ],
)  # fmt: skip
def test_error_numbers_stay(name: str, number: int) -> None:
    assert errors.ErrorCode[name] == number
