"""A topic is changed by its object, and past it: only what is meant changes, losses are told."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from e2e_broker import STREAM, TOPIC, broker, everything, make, ours, root, stream
from e2e_kubectl import Document, Kubectl, as_yaml
from e2e_operator import Operator
from e2e_topics import connected, options, passes, says, status
from stored import send
from waiting import eventually, wait_until

OPERATOR_VALUES = {"replicas": 1, "resyncSeconds": 2}
WITHIN_S = 60.0
PASSES = 10
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
GIB = 1 << 30
IGT = f"igt/{TOPIC}"


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    make(operator.work, broker(), stream(), orders())
    with connected(root(operator.work)) as client:
        send(client, STREAM, TOPIC, *(b"%d" % number for number in range(10)))
    return operator.work


def orders(**retention: str) -> Document:
    """The topic, with four partitions."""
    wanted = {"messageExpiry": "1h", "maxSize": "2Gi"} | retention
    return ours(
        "IggyTopic",
        TOPIC,
        streamRef={"name": STREAM},
        partitions=4,
        compression="Gzip",
        retention={name: text for name, text in wanted.items() if text},
    )


@pytest.mark.parametrize(
    ("retention", "changed"),
    [
        ({"messageExpiry": "1d"}, {"message_expiry": DAY_US}),
        ({"maxSize": "3Gi"}, {"max_topic_size": 3 * GIB}),
        ({"messageExpiry": ""}, {"message_expiry": (1 << 64) - 1}),
    ],
    ids=["expiry", "size", "expiry-removed"],
)
def test_only_the_field_that_is_named_changes(
    work: Kubectl, retention: dict[str, str], changed: dict[str, Any]
) -> None:
    make(work, orders())
    login = root(work)
    before, held = options(login), everything(login)
    assert (before["message_expiry"], before["max_topic_size"]) == (HOUR_US, 2 * GIB)
    incarnation = status(work, IGT)["incarnation"]

    make(work, orders(**retention))

    wanted = {**before, **changed}
    assert eventually(lambda: dict(options(login)), wanted, within_s=WITHIN_S) == wanted
    assert everything(login) == held
    assert status(work, IGT)["incarnation"] == incarnation
    assert says(work, IGT, "Synced") == ("True", "Synced")


def test_more_partitions_are_made_and_fewer_are_refused(work: Kubectl) -> None:
    make(work, orders())
    held = everything(root(work))

    with_six = orders()
    with_six["spec"]["partitions"] = 6
    make(work, with_six)

    assert status(work, IGT)["partitions"] == 6
    refused = work.apply_refusal(orders())
    assert "spec.partitions" in refused
    assert "partitionDecreasePolicy" in refused
    assert everything(root(work)) == held
    wait_until(lambda: "PartitionsAdded" in reasons(work), "the event is there", WITHIN_S)


def test_what_somebody_changes_in_the_broker_is_set_back(work: Kubectl) -> None:
    make(work, six())
    before = options(root(work))

    with connected(root(work)) as client:
        client.update_topic(STREAM, TOPIC, TOPIC, {"message_expiry": 5 * HOUR_US})
    found = eventually(lambda: dict(options(root(work))), dict(before), within_s=WITHIN_S)

    assert found == before
    wait_until(lambda: "DriftReverted" in reasons(work), "the event is there", WITHIN_S)


def test_a_topic_that_somebody_deletes_is_made_again_and_said_so_until_acknowledged(
    work: Kubectl,
) -> None:
    make(work, six())
    before = options(root(work))
    first = status(work, IGT)["incarnation"]

    with connected(root(work)) as client:
        client.delete_topic(STREAM, TOPIC)
    wait_until(
        lambda: says(work, IGT, "DataContinuity") == ("False", "Recreated"), "it says so", WITHIN_S
    )

    told = status(work, IGT)
    assert told["incarnation"] != first
    assert (told["recreations"], told["partitions"]) == (1, 6)
    assert says(work, IGT) == ("True", "Synced")
    assert (dict(options(root(work))), everything(root(work))) == (dict(before), {})
    wait_until(lambda: "Recreated" in reasons(work), "the event is there", WITHIN_S)

    word = f"iggykube.dev/acknowledge-recreation={told['incarnation']}"
    work("annotate", "igt", TOPIC, word)
    wait_until(
        lambda: says(work, IGT, "DataContinuity") == ("True", "Synced"), "it is over", WITHIN_S
    )


def test_nothing_of_an_object_is_touched_however_often_it_is_looked_at(
    operator: Operator, work: Kubectl
) -> None:
    applied = as_yaml([broker(), stream(), six()])
    work.apply(applied)
    work("annotate", "igt", TOPIC, "iggykube.dev/acknowledge-recreation-")
    before = shown(work)
    done = passes(operator, "IggyTopic")

    wait_until(lambda: passes(operator, "IggyTopic") >= done + PASSES, "ten more passes", WITHIN_S)

    assert shown(work) == before
    assert work("diff", "--server-side", "--filename=-", stdin=applied) == ""


def six() -> Document:
    found = orders()
    found["spec"]["partitions"] = 6
    return found


def reasons(kubectl: Kubectl) -> set[str]:
    """Of the events of the topic."""
    about = f"--field-selector=involvedObject.kind=IggyTopic,involvedObject.name={TOPIC}"
    return {one["reason"] for one in kubectl.items("events", about)}


def shown(kubectl: Kubectl) -> list[Document]:
    """Broker, stream and topic, without what the API server itself keeps count of."""
    found = copy.deepcopy(kubectl.items("igb,igs,igt"))
    for one in found:
        one.pop("status")
        for name in ("managedFields", "resourceVersion"):
            one["metadata"].pop(name, None)
    return found
