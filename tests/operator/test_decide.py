from dataclasses import replace

import pytest

from iggy_operator import names
from iggy_operator.decide.actions import (
    AddPartitions,
    CreateGroup,
    CreateStream,
    CreateTopic,
    Reason,
    RemovePartitions,
    UpdateTopic,
)
from iggy_operator.decide.connectors import EXIT_BAD_RECORDS, EXIT_STOPPED, after_exit
from iggy_operator.decide.streams import ObservedStream, decide_stream
from iggy_operator.decide.topics import ObservedTopic, decide_topic
from iggy_operator.documents import Document
from iggy_operator.resources import FOREVER, Resources, Sink, Topic, parse
from iggy_operator.validation import check
from resource_documents import stream, topic, with_sink


def parsed(*values: dict[str, object]) -> Resources:
    return parse(Document(check(value).value, {}) for value in values)


def wanted(**spec: object) -> Topic:
    return parsed(topic(**spec)).topics[0]


def observed(desired: Topic, **changes: object) -> ObservedTopic:
    """What a broker shows that is exactly as wanted, with some changes."""
    seen = ObservedTopic(
        topic_id=3,
        created_at_us=1_000,
        partitions_count=desired.partitions_count,
        options=desired.options,
        groups=frozenset(desired.consumer_groups),
    )
    return replace(seen, **changes)  # type: ignore[arg-type]


def test_a_missing_topic_is_created_with_all_its_options() -> None:
    desired = wanted(partitions=6, consumerGroups=[{"name": "billing"}])

    decision = decide_topic(desired, None)

    assert decision.actions == (
        CreateTopic("orders", 6, desired.options),
        CreateGroup("orders", "billing"),
    )
    assert decision.is_ready
    assert not decision.is_recreated


def test_a_topic_that_is_as_wanted_is_left_alone() -> None:
    desired = wanted(partitions=6)

    decision = decide_topic(desired, observed(desired), known="3-1000")

    assert decision.actions == ()
    assert decision.is_synced


def test_partitions_are_added() -> None:
    desired = wanted(partitions=6)

    decision = decide_topic(desired, observed(desired, partitions_count=4))

    assert decision.actions == (AddPartitions("orders", 2),)


def test_more_partitions_than_wanted_are_reported_not_removed() -> None:
    desired = wanted(partitions=3)

    decision = decide_topic(desired, observed(desired, partitions_count=5))

    assert decision.actions == ()
    assert (decision.reason, decision.is_synced) == (Reason.MORE_PARTITIONS, False)
    assert "partitions is 5, wanted is 3" in decision.message
    assert "partitionDecreasePolicy" in decision.message


def test_partitions_are_removed_when_that_is_said() -> None:
    desired = wanted(partitions=3, partitionDecreasePolicy="DeleteData")

    decision = decide_topic(desired, observed(desired, partitions_count=5))

    assert decision.actions == (RemovePartitions("orders", 2),)


def test_changed_options_are_set_back() -> None:
    desired = wanted(retention={"messageExpiry": "7d"})
    drifted = observed(desired, options=desired.options | {"message_expiry": 5, "other": 1})

    decision = decide_topic(desired, drifted)

    assert decision.actions == (UpdateTopic("orders", {"message_expiry": 7 * 86_400_000_000}),)
    assert decision.is_synced


def test_changed_options_are_reported_when_that_is_said() -> None:
    desired = wanted(driftPolicy="Report")
    drifted = observed(desired, options=desired.options | {"max_topic_size": 5})

    decision = decide_topic(desired, drifted)

    assert decision.actions == ()
    assert decision.reason == Reason.DRIFTED
    assert [str(row) for row in decision.drift] == ["retention.maxSize is 5, wanted is unlimited"]


def test_what_cannot_change_is_reported_and_the_topic_stays_ready() -> None:
    desired = wanted(durability={"profile": "Strict"})
    other = observed(desired, options=desired.options | {"durability": "replicated"})

    decision = decide_topic(desired, other)

    assert decision.reason == Reason.IMMUTABLE_MISMATCH
    assert decision.is_ready
    assert not decision.is_synced


def test_options_that_a_broker_does_not_report_are_not_compared() -> None:
    desired = wanted()

    assert decide_topic(desired, observed(desired, options={})).is_synced


def test_a_topic_deleted_behind_our_back_is_made_again_and_told() -> None:
    decision = decide_topic(wanted(), None, known="3-1000")

    assert isinstance(decision.actions[0], CreateTopic)
    assert decision.is_recreated
    assert decision.reason == Reason.RECREATED


def test_a_topic_deleted_behind_our_back_is_left_when_that_is_said() -> None:
    decision = decide_topic(wanted(missingPolicy="Report"), None, known="3-1000")

    assert decision.actions == ()
    assert (decision.is_ready, decision.reason) == (False, Reason.MISSING)


def test_a_topic_made_again_by_somebody_else_is_noticed() -> None:
    desired = wanted()

    decision = decide_topic(desired, observed(desired, created_at_us=2_000), known="3-1000")

    assert decision.is_recreated


def test_a_foreign_topic_is_not_touched_with_fail_if_exists() -> None:
    desired = wanted(adoptionPolicy="FailIfExists", partitions=6)

    decision = decide_topic(desired, observed(desired, partitions_count=1))

    assert decision.actions == ()
    assert (decision.is_ready, decision.reason) == (False, Reason.ALREADY_EXISTS)


def test_a_stream_is_made_once() -> None:
    desired = parsed(stream()).streams[0]

    assert decide_stream(desired, None).actions == (CreateStream("shop"),)
    assert decide_stream(desired, ObservedStream(0, 1)).actions == ()
    assert decide_stream(desired, ObservedStream(0, 2), known="0-1").is_recreated


@pytest.mark.parametrize(
    ("durability", "expected"),
    [
        ({"profile": "Strict"}, {"durability": "persisted"}),
        ({"profile": "Balanced"}, {"durability": "replicated", "messages_required_to_save": 100}),
        ({"profile": "Relaxed"}, {"durability": "replicated"}),
        (
            {"profile": "Custom", "enforceFsync": True, "flushMessages": 7, "flushBytes": "1Mi"},
            {
                "enforce_fsync": True,
                "messages_required_to_save": 7,
                "size_of_messages_required_to_save": 1 << 20,
            },
        ),
    ],
)
def test_durability_becomes_options(
    durability: dict[str, object], expected: dict[str, object]
) -> None:
    options = wanted(durability=durability).options

    assert expected.items() <= options.items()


def test_defaults_become_options() -> None:
    options = wanted().options

    assert options["message_expiry"] == FOREVER
    assert options["max_topic_size"] == FOREVER
    assert options["segment_size"] == 1 << 30
    assert options["compression_algorithm"] == "none"


def a_sink(**fields: object) -> Sink:
    return parsed(with_sink(**fields)).topics[0].sinks[0]


def test_a_sink_of_a_topic_is_named_after_both() -> None:
    assert str(a_sink().key) == "orders.lake"


def test_long_names_stay_unique_and_short() -> None:
    first = names.connector_name("a" * 62 + "b", "lake", topic_uid="0011-2233-4455")
    second = names.connector_name("a" * 62 + "c", "lake")

    assert first == "a" * 49 + "-00112233.lake"
    assert len(second) == names.NAME_CHARACTERS_MAX
    assert first != second


def test_pauses_grow_up_to_the_limit_then_it_gives_up() -> None:
    desired = a_sink(restart={"maxRetries": 6, "backoffSeconds": 10})
    pauses, retries = [], 0
    for _ in range(7):
        after = after_exit(desired, 1, retries=retries, ran_s=3.0, error="no disk")
        retries = after.retries
        pauses.append(after.pause_s)

    assert pauses == [1, 2, 4, 8, 10, 10, None]
    assert after.reason == Reason.RETRIES_EXHAUSTED
    assert "no disk" in after.message


def test_a_long_run_starts_the_count_anew() -> None:
    after = after_exit(a_sink(), 1, retries=9, ran_s=600.0, error="x")

    assert (after.pause_s, after.retries) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "exit_code", "restarts"),
    [
        ({}, 1, True),
        ({}, 0, True),
        ({}, 2, False),
        ({}, 4, False),
        ({}, 6, False),
        ({"trigger": {"mode": "AvailableNow"}}, 0, False),
        ({"trigger": {"mode": "AvailableNow"}}, 1, True),
        ({"restart": {"policy": "OnFailure"}}, 0, False),
        ({"restart": {"policy": "OnFailure"}}, -9, True),
        ({"restart": {"policy": "Never"}}, 1, False),
    ],
)
def test_how_a_job_ended_decides(fields: dict[str, object], exit_code: int, restarts: bool) -> None:
    after = after_exit(a_sink(**fields), exit_code, retries=0, ran_s=1.0, error="x")

    assert (after.pause_s is not None) == restarts


def test_too_many_bad_messages_have_a_reason_of_their_own() -> None:
    after = after_exit(a_sink(), EXIT_BAD_RECORDS, retries=0, ran_s=1.0, error="30 of 130")

    assert (after.reason, after.message) == (Reason.TOO_MANY_BAD_RECORDS, "30 of 130")


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_job_that_was_stopped_early_goes_on_and_is_no_failure(policy: str) -> None:
    fields = {"trigger": {"mode": "AvailableNow"}, "restart": {"policy": policy, "maxRetries": 0}}

    after = after_exit(a_sink(**fields), EXIT_STOPPED, retries=0, ran_s=1.0, error="x")

    assert (after.pause_s, after.retries) == (1, 0)
    assert "goes on" in after.message
