"""Counters of several shards in one memory."""

from iggy_broker.metrics import DISTRIBUTIONS, FIELDS, TALLIES, Counters, SharedCounters
from iggy_broker.storage.cutting import DecisionKind
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionReason


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


def test_tallies_are_summed_over_the_shards_and_long_ones_show_no_zeros() -> None:
    shared = SharedCounters(2)
    counters = [Counters(shared, shard) for shard in range(2)]
    for one in counters:
        one.refused(ErrorCode.TOPIC_ID_NOT_FOUND)
        one.evicted(EvictionReason.STALE_CLIENT)
    counters[1].refused(ErrorCode.UNAUTHORIZED)
    counters[1].count("checksum_errors_total", "disk")
    for one in counters:
        one.publish()

    assert shared.tallied("refusals_total") == {"unauthorized": 1, "topic_id_not_found": 2}
    assert shared.tallied("evictions_total")["stale_client"] == 2
    assert shared.tallied("checksum_errors_total") == {"client": 0, "disk": 1, "archive": 0}
    assert set(shared.tallied("logins_failed_total").values()) == {0}


def test_every_error_reason_and_decision_has_a_place() -> None:
    counters = Counters(SharedCounters(1), 0)
    for code in ErrorCode:
        counters.refused(code)
    for reason in EvictionReason:
        counters.evicted(reason)
    for kind in DecisionKind:
        counters.count("recovery_decisions", kind.name.lower())
    counters.publish()

    for tally in ("refusals_total", "evictions_total", "recovery_decisions"):
        counted = counters.shared.tallied(tally)
        assert set(counted) == set(TALLIES[tally].values)
        assert set(counted.values()) == {1}


def test_durations_fall_into_their_bucket() -> None:
    shared = SharedCounters(2)
    counters = Counters(shared, 1)
    for duration_s in (0.0005, 0.001, 0.0011, 0.05, 7.0):
        counters.synced(duration_s)
    counters.spread("loop_lag_seconds", 0.003)
    counters.publish()

    assert shared.spread("fsync_seconds", 1) == ([2, 1, 0, 0, 0, 1, 0, 0, 0, 1], 7_052_600)
    assert shared.spread("loop_lag_seconds", 1) == ([1] + [0] * 9, 3_000)
    assert shared.spread("fsync_seconds", 0) == ([0] * 10, 0)


def test_every_metric_is_described() -> None:
    described = [(name, *field) for name, field in FIELDS.items()]
    described += [(name, tally.kind, tally.description) for name, tally in TALLIES.items()]
    for name, kind, description in described:
        assert kind in ("gauge", "counter")
        assert (kind == "counter") == name.endswith("_total")
        assert description.endswith(".")
    for name, distribution in DISTRIBUTIONS.items():
        assert name.endswith("_seconds")
        assert list(distribution.bounds_s) == sorted(set(distribution.bounds_s))
        assert distribution.description.endswith(".")
