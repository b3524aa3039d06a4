"""The IggySinks and IggySources of a topic: one for each entry of its lists; how they are doing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from iggy_operator import API_VERSION
from iggy_operator.cache import Entry
from iggy_operator.cluster import DeniedError, InvalidError, NotFoundError, Object, Ref
from iggy_operator.conditions import READY, SINKS_READY, SOURCES_READY, Condition, condition, found
from iggy_operator.desired.metadata import TOPIC_LABEL, Family, labels, owner_of
from iggy_operator.kinds import common
from iggy_operator.kinds.common import World
from iggy_operator.names import connector_name
from iggy_operator.objects import generation_of, is_deleting, is_owned, status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Connector
from iggy_operator.schema import schemas, with_defaults
from iggy_operator.status import Report

_NAMED_MAX: Final = 3
"""Entries whose trouble a topic's condition spells out."""
_ALL_READY: Final = {"IggySink": SINKS_READY, "IggySource": SOURCES_READY}
"""The topic's condition for each kind."""


async def bring_in_line(
    world: World, entry: Entry, kind: type[Connector], *, may_act: bool, may_create: bool = True
) -> Report:
    """Make, change and remove the topic's sinks or sources; how they are doing.

    Raises ClusterError.
    """
    listed = f"{kind.word}s"
    wanted = {
        item["name"]: _manifest(entry, kind, item) for item in entry.value["spec"].get(listed, ())
    }
    problems: dict[str, Condition] = {}
    if may_act:
        for name, manifest in wanted.items():
            if not may_create and world.cache.get(_ref(manifest)) is None:
                continue
            if problem := await _bring_one(world, entry, kind, manifest):
                problems[name] = problem
        await _remove_others(
            world, entry, kind, {item["metadata"]["name"] for item in wanted.values()}
        )
    rows = [
        _row(name, world.cache.get(_ref(manifest)), problems.get(name))
        for name, manifest in wanted.items()
    ]
    ready = sum(row["ready"] == "True" for row in rows)
    fields = {
        f"{listed}Total": len(rows),
        f"{listed}Ready": ready,
        f"{listed}Summary": f"{ready}/{len(rows)}" if rows else None,
        listed: rows or None,
    }
    return Report((_ready(kind, rows, problems),), fields)


def _manifest(entry: Entry, kind: type[Connector], item: Mapping[str, Any]) -> dict[str, Any]:
    """The object of one entry, as to be applied."""
    key = entry.ref
    name = connector_name(key.name, item["name"], topic_uid=uid_of(entry.value))
    marks = labels(kind.word, name, {kind.label: name, TOPIC_LABEL: key.name})
    family = Family(key.namespace, marks, owner_of(entry.value))
    spec = {field: value for field, value in item.items() if field != "name"}
    return {
        "apiVersion": API_VERSION,
        "kind": kind.kind,
        "metadata": family.metadata(name),
        "spec": {"topicRef": {"name": key.name}, **spec},
    }


def _ref(manifest: Mapping[str, Any]) -> Ref:
    return Ref(manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])


async def _bring_one(
    world: World, entry: Entry, kind: type[Connector], manifest: dict[str, Any]
) -> Condition | None:
    """Make or change one; what stands in the way, if anything does."""
    there = world.cache.get(_ref(manifest))
    if there is None:
        return await _written(world, world.cluster.create, manifest)
    name = there.ref.name
    if not is_owned(there.value, entry.value):
        text = f"{kind.kind} {name} exists and is not this topic's: "
        text += f"remove it, or rename the {kind.word}"
        return condition(READY, False, Reason.NAME_CONFLICT, text)
    if is_deleting(there.value):
        text = f"{kind.kind} {name} is being deleted, and is made anew then"
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
        text = f"{manifest['kind']} {_ref(manifest).name} is refused: {error}"
        return condition(READY, False, Reason.UNSUPPORTED, text)
    return None


def _full_spec(value: Object) -> Object:
    """With our defaults: resource definitions of another time may have others."""
    spec: Object = with_defaults(dict(value), schemas()[value["kind"]].root)["spec"]
    return spec


async def _remove_others(
    world: World, entry: Entry, kind: type[Connector], wanted: set[str]
) -> None:
    """Those of ours that the list does not have any more."""
    doomed = [
        item
        for item in _own(world, entry, kind)
        if item.ref.name not in wanted and not is_deleting(item.value)
    ]
    if doomed:
        await common.check_current(world, entry)
    for item in doomed:
        try:
            await world.cluster.delete(item.ref, uid=uid_of(item.value))
        except NotFoundError:
            continue  # somebody was faster


def _own(world: World, entry: Entry, kind: type[Connector]) -> list[Entry]:
    refs = (ref for ref in world.cache.pointing_at(entry.ref) if ref.kind == kind.kind)
    pointing = map(world.cache.get, refs)
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
    start_by = status.get("start", {}).get("by")
    seen = {"state": state, "lagMessages": lag, "startBy": start_by}
    return row | {field: value for field, value in seen.items() if value is not None}


def _current_ready(value: Object) -> Mapping[str, Any] | None:
    """Its Ready; None as long as that is about an older spec."""
    status = status_of(value)
    if status.get("observedGeneration") != generation_of(value):
        return None
    return found(status.get("conditions", ()), READY)


def _ready(
    kind: type[Connector], rows: list[dict[str, Any]], problems: Mapping[str, Condition]
) -> Condition:
    bad = [row for row in rows if row["ready"] != "True"]
    if not bad:
        return condition(_ALL_READY[kind.kind], True, Reason.SYNCED)
    texts = [
        f"{row['name']}: {problems[row['name']].message}"
        if row["name"] in problems
        else f"{row['name']}: {row['reason']}"
        for row in bad[:_NAMED_MAX]
    ]
    more = f", and {len(bad) - _NAMED_MAX} more" if len(bad) > _NAMED_MAX else ""
    text = "; ".join(texts) + f"{more}: see the {kind.kind}s"
    return condition(_ALL_READY[kind.kind], False, _reason(bad[0]["reason"]), text)


def _reason(text: str) -> Reason:
    """Of an entry's condition; a word that a later release wrote is Pending to us."""
    return next((item for item in Reason if item == text), Reason.PENDING)
