"""Counters of several shards in one memory, and their exposition."""

from iggy_broker.metrics import FIELDS, Counters, SharedCounters


def test_what_a_shard_publishes_all_see() -> None:
    shared = SharedCounters(3)
    counters = [Counters(shared, shard) for shard in range(3)]
    counters[0].sends_total = 5
    counters[2].sends_total = 7

    assert shared.total("sends_total") == 0
    for one in counters:
        one.publish()

    assert shared.values("sends_total") == [5, 0, 7]
    assert shared.total("sends_total") == 12


def test_ready_is_when_all_are() -> None:
    shared = SharedCounters(2)
    for shard in range(2):
        assert not shared.all_ready
        counters = Counters(shared, shard)
        counters.ready = 1
        counters.publish()

    assert shared.all_ready


def test_syncs_fall_into_the_bucket_of_their_duration() -> None:
    shared = SharedCounters(2)
    counters = Counters(shared, 1)
    for duration_s in (0.0005, 0.001, 0.0011, 0.05, 7.0):
        counters.synced(duration_s)
    counters.publish()

    counts, sum_us = shared.syncs(1)
    assert counts == [2, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert sum_us == 7_052_600
    assert shared.syncs(0) == ([0] * 10, 0)


def test_every_field_is_described() -> None:
    for name, (kind, description) in FIELDS.items():
        assert kind in ("gauge", "counter")
        assert (kind == "counter") == name.endswith("_total")
        assert description.endswith(".")
