"""What a `Cluster` promises, as scenarios: the fake one and a real API server keep the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import pytest

from iggy_operator import API_VERSION
from iggy_operator.cluster import (
    Cluster,
    ClusterError,
    ConflictError,
    Event,
    InvalidError,
    NotFoundError,
    Object,
    Ref,
)
from iggy_operator.objects import uid_of

FINALIZER = "iggykube.dev/in-broker"


class People(Protocol):
    """What people do, with kubectl."""

    namespace: str

    async def put(self, value: Mapping[str, Any]) -> Object:
        """Make an object, or change it; what is not named stays ours."""
        ...

    async def remove(self, ref: Ref) -> None: ...


Scenario = Callable[[Cluster, People], Awaitable[None]]


def config(people: People, name: str = "settings", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": people.namespace, "labels": {"x/part": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def topic(people: People, name: str = "orders", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": people.namespace}
    full = {"streamRef": {"name": "shop"}} | spec
    return {"apiVersion": API_VERSION, "kind": "IggyTopic", "metadata": metadata, "spec": full}


def with_uid(value: Mapping[str, Any], uid: str) -> dict[str, Any]:
    return {**value, "metadata": {**value["metadata"], "uid": uid}}


def status_of_topic(people: People, uid: str, **status: Any) -> dict[str, Any]:
    value = with_uid(topic(people), uid)
    del value["spec"]
    return value | {"status": status}


def ref(people: People, kind: str = "ConfigMap", name: str = "settings") -> Ref:
    return Ref(kind, people.namespace, name)


def version(value: Object) -> str:
    return str(value["metadata"]["resourceVersion"])


async def what_is_not_there_is_not_found(cluster: Cluster, people: People) -> None:
    for action in (
        cluster.get(ref(people)),
        cluster.delete(ref(people), uid="any"),
        cluster.add_finalizer(ref(people), uid="any", finalizer=FINALIZER),
        cluster.remove_finalizer(ref(people), uid="any", finalizer=FINALIZER),
    ):
        with pytest.raises(NotFoundError):
            await action


async def a_kind_that_is_not_installed_is_not_found(cluster: Cluster, people: People) -> None:
    with pytest.raises(NotFoundError):
        await cluster.list("SparkApplication.spark.apache.org", namespace=people.namespace)


async def what_is_made_is_there_once(cluster: Cluster, people: People) -> None:
    made = await cluster.create(config(people, a="1"))

    assert (await cluster.get(ref(people)))["data"] == {"a": "1"}
    with pytest.raises(ConflictError):
        await cluster.create(config(people, a="2"))
    found = await cluster.get(ref(people))
    assert found["data"] == {"a": "1"}
    assert version(found) == version(made)


async def what_somebody_else_made_is_never_made_again(cluster: Cluster, people: People) -> None:
    await people.put(config(people, a="theirs"))

    with pytest.raises(ConflictError):
        await cluster.create(config(people, b="ours"))

    assert (await cluster.get(ref(people)))["data"] == {"a": "theirs"}


async def what_was_made_is_ours_to_take_back(cluster: Cluster, people: People) -> None:
    made = await cluster.create(config(people, a="1", b="2"))

    changed = await cluster.apply(with_uid(config(people, a="1"), uid_of(made)))

    assert changed["data"] == {"a": "1"}


async def what_others_have_added_stays(cluster: Cluster, people: People) -> None:
    made = await cluster.create(config(people, a="1", b="2"))
    await people.put(config(people, a="1", b="2", theirs="3"))

    changed = await cluster.apply(with_uid(config(people, a="1"), uid_of(made)))

    assert changed["data"] == {"a": "1", "theirs": "3"}


async def what_changes_nothing_writes_nothing(cluster: Cluster, people: People) -> None:
    made = await cluster.create(config(people, a="1"))

    same = await cluster.apply(with_uid(config(people, a="1"), uid_of(made)))

    assert version(same) == version(made)


async def another_object_of_the_name_is_left_alone(cluster: Cluster, people: People) -> None:
    made = await cluster.create(config(people, a="1"))

    for action in (
        cluster.apply(with_uid(config(people, a="2"), "another")),
        cluster.delete(ref(people), uid="another"),
        cluster.add_finalizer(ref(people), uid="another", finalizer=FINALIZER),
        cluster.remove_finalizer(ref(people), uid="another", finalizer=FINALIZER),
    ):
        with pytest.raises(ConflictError):
            await action

    assert version(await cluster.get(ref(people))) == version(made)


async def what_is_gone_is_not_made_by_an_apply(cluster: Cluster, people: People) -> None:
    with pytest.raises(ClusterError) as caught:
        await cluster.apply(with_uid(config(people, a="2"), "another"))

    assert isinstance(caught.value, NotFoundError | ConflictError)
    with pytest.raises(NotFoundError):
        await cluster.get(ref(people))


async def lists_are_by_namespace_and_labels(cluster: Cluster, people: People) -> None:
    for name in ("one", "two"):
        await cluster.create(config(people, name, a="1"))

    def names(found: Any) -> list[str]:
        return sorted(item["metadata"]["name"] for item in found)

    everything = await cluster.list("ConfigMap", namespace=people.namespace)
    assert {"one", "two"} <= set(names(everything))
    assert {item["kind"] for item in everything} == {"ConfigMap"}
    labels = {"x/part": "one"}
    assert names(await cluster.list("ConfigMap", namespace=people.namespace, labels=labels)) == [
        "one"
    ]
    assert await cluster.list("ConfigMap", namespace="elsewhere", labels=labels) == []


async def a_status_is_there_from_birth_and_apart(cluster: Cluster, people: People) -> None:
    made = await people.put(topic(people))
    assert made["status"]["conditions"][0]["reason"] == "Pending"

    uid = uid_of(made)
    changed = await cluster.apply_status(status_of_topic(people, uid, messages=4, partitions=2))
    assert changed["metadata"]["generation"] == made["metadata"]["generation"]
    assert changed["status"]["messages"] == 4
    same = await cluster.apply_status(status_of_topic(people, uid, messages=4, partitions=2))
    assert version(same) == version(changed)
    fewer = await cluster.apply_status(status_of_topic(people, uid, messages=5))
    assert fewer["status"]["messages"] == 5
    assert "partitions" not in fewer["status"]


async def a_status_of_another_object_is_refused(cluster: Cluster, people: People) -> None:
    made = await people.put(topic(people))

    with pytest.raises(ConflictError):
        await cluster.apply_status(status_of_topic(people, "another", messages=4))

    assert version(await cluster.get(ref(people, "IggyTopic", "orders"))) == version(made)


async def a_status_that_does_not_fit_is_refused(cluster: Cluster, people: People) -> None:
    uid = uid_of(await people.put(topic(people)))

    for status in ({"messages": "many"}, {"no such field": 1}):
        with pytest.raises(InvalidError):
            await cluster.apply_status(status_of_topic(people, uid, **status))


async def a_spec_moves_the_generation_and_a_finalizer_does_not(
    cluster: Cluster, people: People
) -> None:
    made = await people.put(topic(people))
    where = ref(people, "IggyTopic", "orders")
    held = await cluster.add_finalizer(where, uid=uid_of(made), finalizer=FINALIZER)
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert held["metadata"]["generation"] == made["metadata"]["generation"]

    again = await cluster.add_finalizer(where, uid=uid_of(made), finalizer=FINALIZER)
    assert version(again) == version(held)

    changed = await people.put(topic(people, partitions=3))
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert changed["metadata"]["finalizers"] == [FINALIZER]
    freed = await cluster.remove_finalizer(where, uid=uid_of(made), finalizer=FINALIZER)
    assert not freed["metadata"].get("finalizers")  # or its namespace could never end


async def a_finalizer_holds_a_deletion_up(cluster: Cluster, people: People) -> None:
    made = await people.put(topic(people))
    where, uid = ref(people, "IggyTopic", "orders"), uid_of(made)
    await cluster.add_finalizer(where, uid=uid, finalizer=FINALIZER)
    await people.remove(where)

    assert "deletionTimestamp" in (await cluster.get(where))["metadata"]
    with pytest.raises(InvalidError):
        await cluster.add_finalizer(where, uid=uid, finalizer="iggykube.dev/another")
    status = await cluster.apply_status(status_of_topic(people, uid, messages=1))
    assert status["status"]["messages"] == 1

    await cluster.remove_finalizer(where, uid=uid, finalizer=FINALIZER)
    with pytest.raises(NotFoundError):
        await cluster.get(where)


async def a_finalizer_that_is_not_there_is_gone_already(cluster: Cluster, people: People) -> None:
    made = await people.put(topic(people))
    where = ref(people, "IggyTopic", "orders")

    same = await cluster.remove_finalizer(where, uid=uid_of(made), finalizer=FINALIZER)

    assert version(same) == version(made)


async def what_is_made_anew_has_another_uid(cluster: Cluster, people: People) -> None:
    first = await cluster.create(config(people, a="1"))
    await cluster.delete(ref(people), uid=uid_of(first))

    second = await cluster.create(config(people, a="1"))

    assert uid_of(second) != uid_of(first)


async def long_events_are_taken(cluster: Cluster, people: People) -> None:
    made = await people.put(topic(people))

    await cluster.record(Event(made, True, "Because", "m" * 5_000))


SCENARIOS: Final[tuple[Scenario, ...]] = (
    what_is_not_there_is_not_found,
    a_kind_that_is_not_installed_is_not_found,
    what_is_made_is_there_once,
    what_somebody_else_made_is_never_made_again,
    what_was_made_is_ours_to_take_back,
    what_others_have_added_stays,
    what_changes_nothing_writes_nothing,
    another_object_of_the_name_is_left_alone,
    what_is_gone_is_not_made_by_an_apply,
    lists_are_by_namespace_and_labels,
    a_status_is_there_from_birth_and_apart,
    a_status_of_another_object_is_refused,
    a_status_that_does_not_fit_is_refused,
    a_spec_moves_the_generation_and_a_finalizer_does_not,
    a_finalizer_holds_a_deletion_up,
    a_finalizer_that_is_not_there_is_gone_already,
    what_is_made_anew_has_another_uid,
    long_events_are_taken,
)
