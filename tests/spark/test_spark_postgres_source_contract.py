"""What every source promises, by changes and by polled rows of a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from iggy_spark.sources.base import Source
from postgres import Postgres
from postgres_sources import HASTY, Shop, shop_in
from source_contract import SourceContract


@dataclass
class TableOrigin:
    """A table that rows are put into; `block` goes on top of the source's settings."""

    shop: Shop
    block: dict[str, Any] = field(default_factory=dict)
    lump = 0
    added: int = 0

    def source(self) -> Source:
        return self.shop.source(policy=HASTY, **self.block)

    def add(self, count: int) -> None:
        self.shop.insert(*range(self.added, self.added + count))
        self.added += count

    def number(self, payload: bytes) -> int:
        told = json.loads(payload)
        found: int = told.get("after", told)["id"]
        return found

    def away(self) -> Source:
        return self.shop.source(
            policy=HASTY, **{**self.block, "url": "postgresql://127.0.0.1:9/shop"}
        )


class TestChanges(SourceContract):
    @pytest.fixture
    def origin(self, postgres: Postgres) -> Iterator[TableOrigin]:
        with shop_in(postgres) as shop:
            yield TableOrigin(shop)


class TestPolling(SourceContract):
    @pytest.fixture
    def origin(self, postgres: Postgres) -> Iterator[TableOrigin]:
        with shop_in(postgres) as shop:
            block = {"mode": "Polling", "cursorColumn": "id", "keyColumns": ["id"], "settle": "1ms"}
            yield TableOrigin(shop, block)
