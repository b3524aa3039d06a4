"""The IggySinks of a topic: one for each entry of its `sinks`, and how they are doing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from iggy_operator import API_VERSION
from iggy_operator.cache import Entry
from iggy_operator.cluster import DeniedError, InvalidError, NotFoundError, Object, Ref
from iggy_operator.conditions import READY, SINKS_READY, Condition, condition, found
from iggy_operator.desired.metadata import SINK_LABEL, TOPIC_LABEL, Family, labels, owner_of
from iggy_operator.kinds import common
from iggy_operator.kinds.common import World
from iggy_operator.names import sink_name
from iggy_operator.objects import generation_of, is_deleting, is_owned, status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Topic
from iggy_operator.schema import schemas, with_defaults
from iggy_operator.status import Report

_KIND: Final = "IggySink"
_NAMED_MAX: Final = 3
"""Sinks whose trouble a topic's condition spells out."""


async def bring_in_line(
    world: World, entry: Entry, *, may_act: bool, may_create: bool = True
) -> Report:
    """Make, change and remove the topic's sinks; how they are doing. Raises ClusterError."""
    topic = entry.resource
    assert isinstance(topic, Topic)
    wanted = {item["name"]: _manifest(entry, item) for item in entry.value["spec"].get("sinks", ())}
    problems: dict[str, Condition] = {}
    if may_act:
        for name, manifest in wanted.items():
            if not may_create and world.cache.get(_ref(manifest)) is None:
                continue
            if problem := await _bring_one(world, entry, manifest):
                problems[name] = problem
        await _remove_others(world, entry, {item["metadata"]["name"] for item in wanted.values()})
    rows = [
        _row(name, world.cache.get(_ref(manifest)), problems.get(name))
        for name, manifest in wanted.items()
    ]
    ready = sum(row["ready"] == "True" for row in rows)
    fields = {
        "sinksTotal": len(rows),
        "sinksReady": ready,
        "sinksSummary": f"{ready}/{len(rows)}" if rows else None,
        "sinks": rows or None,
    }
    return Report((_ready(rows, problems),), fields)


def _manifest(entry: Entry, item: Mapping[str, Any]) -> dict[str, Any]:
    """The IggySink of one entry, as to be applied."""
    key = entry.ref
    name = sink_name(key.name, item["name"], topic_uid=uid_of(entry.value))
    marks = labels("sink", name, {SINK_LABEL: name, TOPIC_LABEL: key.name})
    family = Family(key.namespace, marks, owner_of(entry.value))
    spec = {field: value for field, value in item.items() if field != "name"}
    return {
        "apiVersion": API_VERSION,
        "kind": _KIND,
        "metadata": family.metadata(name),
        "spec": {"topicRef": {"name": key.name}, **spec},
    }


def _ref(manifest: Mapping[str, Any]) -> Ref:
    return Ref(_KIND, manifest["metadata"]["namespace"], manifest["metadata"]["name"])


async def _bring_one(world: World, entry: Entry, manifest: dict[str, Any]) -> Condition | None:
    """Make or change one sink; what stands in the way, if anything does."""
    there = world.cache.get(_ref(manifest))
    if there is None:
        return await _written(world, world.cluster.create, manifest)
    name = there.ref.name
    if not is_owned(there.value, entry.value):
        text = f"IggySink {name} exists and is not this topic's: remove it, or rename the sink"
        return condition(READY, False, Reason.NAME_CONFLICT, text)
    if is_deleting(there.value):
        text = f"IggySink {name} is being deleted, and is made anew then"
        return condition(READY, False, Reason.DELETING, text)
    if _full_spec(there.value) == _full_spec(manifest):
        return None
    uid = uid_of(there.value)
    changed = {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
    return await _written(world, world.cluster.apply, changed)


async def _written(
    world: World, write: Callable[[Object], Awaitable[Object]], manifest: Object
) -> Condition | None:
    """Make or change one; what the API server refuses is told and holds nothing else up."""
    try:
        world.cache.put(await write(manifest))
    except (InvalidError, DeniedError) as error:
        text = f"IggySink {_ref(manifest).name} is refused: {error}"
        return condition(READY, False, Reason.UNSUPPORTED, text)
    return None


def _full_spec(value: Object) -> Object:
    """With our defaults: resource definitions of another time may have others."""
    spec: Object = with_defaults(dict(value), schemas()[_KIND].root)["spec"]
    return spec


async def _remove_others(world: World, entry: Entry, wanted: set[str]) -> None:
    """Sinks of ours that the list does not have any more."""
    doomed = [
        item
        for item in _own(world, entry)
        if item.ref.name not in wanted and not is_deleting(item.value)
    ]
    if doomed:
        await common.check_current(world, entry)
    for item in doomed:
        try:
            await world.cluster.delete(item.ref, uid=uid_of(item.value))
        except NotFoundError:
            continue  # somebody was faster


def _own(world: World, entry: Entry) -> list[Entry]:
    pointing = (world.cache.get(ref) for ref in world.cache.pointing_at(entry.ref))
    return [item for item in pointing if item is not None and is_owned(item.value, entry.value)]


def _row(name: str, there: Entry | None, problem: Condition | None) -> dict[str, Any]:
    """One line of the topic's status."""
    if problem is not None:
        return {"name": name, "ready": problem.status, "reason": str(problem.reason)}
    if there is None or (ready := _current_ready(there.value)) is None:
        return {"name": name, "ready": "Unknown", "reason": str(Reason.PENDING)}
    row = {"name": name, "ready": ready["status"], "reason": ready["reason"]}
    status = status_of(there.value)
    state = status.get("application", {}).get("state")
    lag = status.get("progress", {}).get("lagMessages")
    seen = {"state": state, "lagMessages": lag}
    return row | {field: value for field, value in seen.items() if value is not None}


def _current_ready(value: Object) -> Mapping[str, Any] | None:
    """Its Ready; None as long as that is about an older spec."""
    status = status_of(value)
    if status.get("observedGeneration") != generation_of(value):
        return None
    return found(status.get("conditions", ()), READY)


def _ready(rows: list[dict[str, Any]], problems: Mapping[str, Condition]) -> Condition:
    bad = [row for row in rows if row["ready"] != "True"]
    if not bad:
        return condition(SINKS_READY, True, Reason.SYNCED)
    texts = [
        f"{row['name']}: {problems[row['name']].message}"
        if row["name"] in problems
        else f"{row['name']}: {row['reason']}"
        for row in bad[:_NAMED_MAX]
    ]
    more = f", and {len(bad) - _NAMED_MAX} more" if len(bad) > _NAMED_MAX else ""
    text = "; ".join(texts) + f"{more}: see the IggySinks"
    return condition(SINKS_READY, False, _reason(bad[0]["reason"]), text)


def _reason(text: str) -> Reason:
    """Of a sink's condition; a word that a later release wrote is Pending to us."""
    return next((item for item in Reason if item == text), Reason.PENDING)
