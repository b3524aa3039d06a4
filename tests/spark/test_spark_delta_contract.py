"""The Delta sink keeps what every sink promises: in a folder and in a bucket, in both modes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from delta_tables import DeltaPlace, bucket_place, folder_place
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.delta import DeltaSink
from iggy_spark.sinks.rows import table_fields
from object_store import ObjectStore
from sink_cases import NEXT_LIFE, declare, wanted
from sink_contract import Row, SinkContract, Target, batch, every

APPEND: dict[str, Any] = {"partitionBy": ["month", "iggy_date"]}
# Every message has a key of its own, so that the contract holds.
UPSERT: dict[str, Any] = {"mode": "Upsert", "keyColumns": ["iggy_partition_id", "iggy_offset"]}

TAKES_ALL = "a table takes every row: columns that do not fit are found before the first batch"


@dataclass(frozen=True)
class DeltaTarget:
    """A table of its own."""

    place: DeltaPlace
    more: dict[str, Any]

    def sink(self) -> DeltaSink:
        retry = Retry(Policy(timeout_s=1, initial_s=0.1, max_s=0.5))
        fields = table_fields(declare())
        return DeltaSink(
            self.place.block(**self.more), fields, name="shop/orders.lake", retry=retry
        )

    def rows(self) -> list[Row]:
        return self.place.rows()

    def refusing(self) -> str:
        return TAKES_ALL

    def away(self) -> Target:
        store = {
            "endpoint": "http://127.0.0.1:9",
            "credentialsPath": self.place.store.get("credentialsPath"),
        }
        return DeltaTarget(DeltaPlace("s3a://tests/nothing", store, {}), self.more)


class TestDelta(SinkContract):
    @pytest.fixture(params=["folder", "bucket"])
    def target(self, request: pytest.FixtureRequest, tmp_path: Path) -> Target:
        if request.param == "folder":
            return DeltaTarget(folder_place(tmp_path), APPEND)
        store: ObjectStore = request.getfixturevalue("store")
        return DeltaTarget(bucket_place(store), APPEND)


class TestDeltaUpsert(SinkContract):
    @pytest.fixture(params=["folder", "bucket"])
    def target(self, request: pytest.FixtureRequest, tmp_path: Path) -> Target:
        if request.param == "folder":
            return DeltaTarget(folder_place(tmp_path), UPSERT)
        store: ObjectStore = request.getfixturevalue("store")
        return DeltaTarget(bucket_place(store), UPSERT)

    def test_another_life_of_the_topic_has_messages_of_its_own(self, target: Target) -> None:
        """They are written, and replace those of the same keys."""
        batch(target, wanted(0, 4))

        results = batch(target, wanted(2, 6, incarnation=NEXT_LIFE))

        assert results[0].rows == 4
        assert target.rows() == every(0, 0, 6)
