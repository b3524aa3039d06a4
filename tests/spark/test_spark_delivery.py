"""What a sink cannot promise is refused before it starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from iggy_spark import job_config
from iggy_spark.errors import OptionError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import registry
from iggy_spark.sinks.base import Sink

JSON = {"format": "Json", "schema": "id BIGINT, made STRING"}
FILES = {"type": "Files", "files": {"path": "/lake"}}


def build(**sink: Any) -> Sink:
    value = {
        "name": "shop/orders.lake",
        "broker": {"address": "127.0.0.1:1"},
        "stream": "shop",
        "topic": "orders",
        "sink": {"payload": JSON, **FILES, **sink},
        "checkpoint": "/nowhere",
    }
    config = job_config.parse(msgspec.json.encode(value), name="test")
    return registry.build(config, show=lambda line: None, retry=Retry(Policy()))


def computed(kind: str) -> list[dict[str, Any]]:
    return [{"add_fields": {"fields": [{"key": "made", "value": {"computed": kind}}]}}]


def test_exactly_once_is_for_sinks_that_can() -> None:
    build(delivery="ExactlyOnce")
    build(type="Console", files=None, delivery="AtLeastOnce")
    with pytest.raises(OptionError, match=r"sink\.delivery: Console .* cannot do ExactlyOnce"):
        build(type="Console", files=None, delivery="ExactlyOnce")


@pytest.mark.parametrize("kind", ["uuid_v4", "uuid_v7", "date_time"])
def test_values_that_a_repetition_changes_are_not_exactly_once(kind: str) -> None:
    build(transforms=computed(kind))
    build(transforms=computed(kind), delivery="AtLeastOnce")
    with pytest.raises(OptionError, match=r"transforms\[0\].*another one when a batch is repeated"):
        build(transforms=computed(kind), delivery="ExactlyOnce")


def test_whoever_says_so_may_have_them_all_the_same() -> None:
    (item,) = computed("date_time")
    allowed = {"add_fields": {**item["add_fields"], "allowUnrepeatable": True}}

    assert build(transforms=[allowed], delivery="ExactlyOnce").exactly_once
    with pytest.raises(OptionError, match=r"transforms\[1\].*allowUnrepeatable: true"):
        build(transforms=[allowed, item], delivery="ExactlyOnce")
    with pytest.raises(OptionError, match=r"allowUnrepeatable: true or false is expected"):
        build(transforms=[{"add_fields": {**item["add_fields"], "allowUnrepeatable": "yes"}}])


@pytest.mark.parametrize("kind", ["uuid_v5", "offset", "broker_timestamp_millis"])
def test_values_of_the_message_are_exactly_once(kind: str) -> None:
    assert build(transforms=computed(kind), delivery="ExactlyOnce").exactly_once
