"""What the other system is told and when: a commit log written by hand stands for Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from iggy_spark.checkpoint import SOURCE_LIFE, Checkpoint
from iggy_spark.source_metrics import SourceMetrics
from iggy_spark.source_progress import AGAIN_S, LOOK_S, TOLD_BYTES_MAX, SourceProgress, told
from iggy_spark.source_task import Carried
from played_source import PlayedSource
from quick_retry import quick


class Scene:
    """A job without Spark."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.source = PlayedSource()
        self.metrics = SourceMetrics("shop/orders.made")
        self.retry = quick()
        self.now = 100.0
        self.progress = SourceProgress(
            self.source, self.retry, checkpoint, self.metrics, clock=lambda: self.now
        )

    def plan(self, batch: int, position: Any) -> None:
        """As Spark writes it."""
        self._write("offsets", batch, f"v1\n{{}}\n{json.dumps(position)}\n")

    def commit(self, batch: int) -> None:
        self._write("commits", batch, "v1\n{}")

    def _write(self, folder: str, batch: int, text: str) -> None:
        place = self.checkpoint.spark(SOURCE_LIFE) / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / str(batch)).write_text(text)

    def figure(self, name: str, **labels: str) -> float | None:
        own = {"namespace": "shop", "source": "orders.made", **labels}
        return self.metrics.registry.get_sample_value(f"iggy_source_{name}", own)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with closing(Checkpoint(tmp_path / "checkpoint")) as checkpoint:
        yield Scene(checkpoint)


def test_a_batch_is_told_once_when_spark_has_committed_it(scene: Scene) -> None:
    scene.progress.tell(None)
    scene.plan(0, {"n": 5})
    scene.progress.tell(0)
    before = list(scene.source.told)
    scene.commit(0)
    scene.plan(1, {"n": 9})
    for _ in range(3):
        scene.progress.tell(0)

    assert before == []
    assert scene.source.told == [{"n": 5}]


def test_nothing_is_told_while_a_batch_is_read(scene: Scene) -> None:
    scene.plan(0, {"n": 5})
    with scene.progress.reading(0):
        scene.commit(0)
        scene.progress.tell(0)
        during = list(scene.source.told)
    scene.progress.tell(0)

    assert (during, scene.source.told) == ([], [{"n": 5}])


def test_the_batch_before_is_told_before_the_next_is_read(scene: Scene) -> None:
    scene.plan(0, {"n": 5})
    scene.commit(0)
    scene.plan(1, {"n": 9})
    with scene.progress.reading(1):
        first = list(scene.source.told)
    with scene.progress.reading(1):  # and not again
        assert scene.source.told == first == [{"n": 5}]


def test_a_system_that_is_away_is_told_later(scene: Scene) -> None:
    scene.plan(0, {"n": 5})
    scene.commit(0)
    scene.source.is_away = True
    for _ in range(3):
        scene.progress.tell(0)
    scene.source.is_away = False
    scene.progress.tell(0)
    before = list(scene.source.told)
    scene.now += AGAIN_S
    scene.progress.tell(0)

    assert (before, scene.source.told) == ([], [{"n": 5}])
    assert scene.figure("done_failures_total") == 1


def test_what_waits_is_looked_at_now_and_then(scene: Scene) -> None:
    unknown = scene.figure("behind_messages")
    scene.source.waiting = 7
    is_new = [scene.progress.look({"n": 0})]
    scene.source.waiting = 8
    is_new.append(scene.progress.look({"n": 0}))
    seen = scene.figure("behind_messages")
    scene.now += LOOK_S
    scene.source.is_away = True
    is_new.append(scene.progress.look({"n": 0}))

    assert unknown is not None and math.isnan(unknown)
    assert seen == scene.figure("behind_messages") == 7
    assert scene.progress.behind is None
    assert is_new == [True, False, True]


def test_retries_of_the_job_itself_are_counted(scene: Scene) -> None:
    scene.plan(0, {"n": 5})
    scene.commit(0)
    scene.retry.counts["unreachable"] = 2
    scene.progress.tell_committed()
    scene.progress.tell_committed()

    assert scene.figure("retries_total", reason="unreachable") == 2


def test_figures_of_a_batch() -> None:
    scene = SourceMetrics("made")
    own = {"namespace": "", "source": "made"}
    done = Carried(5, 100, {"busy": 1}).plus(Carried(2, 30, {"busy": 2, "conflict": 1}))

    scene.batch_done(done, seconds=0.5, now=1_795_000_000.0)
    scene.batch_done(Carried(), seconds=0.1, now=1_795_000_001.0)

    found = {
        name: scene.registry.get_sample_value(f"iggy_source_{name}", own)
        for name in ("messages_total", "bytes_total", "batches_total", "batch_seconds_count")
    }
    assert found == {
        "messages_total": 7,
        "bytes_total": 130,
        "batches_total": 2,
        "batch_seconds_count": 2,
    }
    busy = scene.registry.get_sample_value("iggy_source_retries_total", own | {"reason": "busy"})
    committed = scene.registry.get_sample_value("iggy_source_committed_timestamp_seconds", own)
    assert (busy, committed) == (3, 1_795_000_001.0)


def test_a_position_that_is_too_long_is_left_out_of_events() -> None:
    assert told({"n": 1}) == {"n": 1}
    assert told({"files": ["x" * TOLD_BYTES_MAX]}) is None
