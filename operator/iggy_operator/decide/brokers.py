"""A managed broker: what its StatefulSet and its volume become, and what of the spec must wait.

What cannot be had changes nothing and holds nothing else up: a condition says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from iggy_operator import units
from iggy_operator.desired.broker_names import DATA_VOLUME
from iggy_operator.desired.broker_pod import CONTAINER
from iggy_operator.desired.metadata import RESTART_AT, Manifest
from iggy_operator.desired.staging import Change, change, is_stuck, stage
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker

Object: TypeAlias = Mapping[str, Any]
# Of a StatefulSet, besides its claim templates: they need a new one (Kubernetes).
_REPLACING: Final = ("serviceName", "podManagementPolicy")
_FIXED: Final = ("storageClassName", "accessMode", "ephemeral")
SIZE_MAX: Final = Fraction(1 << 63)
"""More bytes than Kubernetes can count."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What is done about the volume."""

    broker: Broker
    """The spec to render: with the storage that can be had."""
    grow_to: str = ""
    """Size that the claim shall ask for from now on."""
    reason: Reason = Reason.SYNCED
    problem: str = ""


def decide_storage(
    broker: Broker, stateful_set: Object | None, claim: Object | None, *, obstacle: str
) -> Storage:
    """What of `spec.storage` can be had. `obstacle`: why the claim cannot grow, if it cannot."""
    wanted = broker.spec["storage"]
    running = wanted if stateful_set is None else _storage_of(stateful_set, wanted)
    problems = [
        f"storage.{name} cannot change: put {_word(running.get(name))} back"
        for name in _FIXED
        if wanted.get(name) != running.get(name)
    ]
    if running["ephemeral"]:
        kept = {**running, "size": wanted["size"]}
        return Storage(_with_storage(broker, kept), **_told(Reason.IMMUTABLE_MISMATCH, problems))
    grow_to, reason, text = growth("storage.size", wanted["size"], running["size"], claim, obstacle)
    reason = Reason.IMMUTABLE_MISMATCH if problems else reason
    is_kept = bool(text) and stateful_set is not None
    kept = {**running, "size": running["size"] if is_kept else wanted["size"]}
    told = _told(reason, [*problems, *filter(None, [text])])
    return Storage(_with_storage(broker, kept), grow_to=grow_to, **told)


def growth(
    field: str, wanted: str, rendered: str, claim: Object | None, obstacle: str
) -> tuple[str, Reason, str]:
    """What the claim shall ask for, and what is in the way. `field` is that of the size."""
    size = units.quantity(wanted)
    if size > SIZE_MAX:
        return "", Reason.UNSUPPORTED, f"{field}: {wanted} is more than a volume can have"
    has = rendered if claim is None else requested(claim)
    name = "" if claim is None else f" of claim {claim['metadata']['name']}"
    if size < max(units.quantity(has), units.quantity(rendered)):
        shown = max(has, rendered, key=units.quantity)
        text = f"a volume cannot shrink: set {field} to at least the {shown}{name}"
        return "", Reason.UNSUPPORTED, text
    if claim is None or size == units.quantity(has):
        return "", Reason.SYNCED, ""
    if obstacle:
        return "", Reason.EXPANSION_UNSUPPORTED, f"{obstacle}; it stays at {has}"
    return wanted, Reason.SYNCED, ""


def may_grow(broker: Broker, claim: Object | None) -> bool:
    """Whether the spec asks for more than the claim does, so that its class matters."""
    if claim is None or broker.spec["storage"]["ephemeral"]:
        return False
    return units.quantity(broker.spec["storage"]["size"]) > units.quantity(requested(claim))


def requested(claim: Object) -> str:
    """Size that a claim asks for."""
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _storage_of(stateful_set: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `spec.storage` that a StatefulSet shows."""
    templates = [
        template
        for template in stateful_set["spec"].get("volumeClaimTemplates", ())
        if template["metadata"]["name"] == DATA_VOLUME
    ]
    fixed = {name: item for name, item in wanted.items() if name not in _FIXED}
    if not templates:
        return {**fixed, **{name: wanted[name] for name in _FIXED if name in wanted},
                "ephemeral": True}  # fmt: skip
    spec = templates[0]["spec"]
    found = {
        **fixed,
        "ephemeral": False,
        "accessMode": spec["accessModes"][0],
        "size": requested(templates[0]),
    }
    if "storageClassName" in spec:
        found["storageClassName"] = spec["storageClassName"]
    return found


def _with_storage(broker: Broker, storage: Mapping[str, Any]) -> Broker:
    return replace(broker, spec={**broker.spec, "storage": storage})


def _word(value: object) -> str:
    return "nothing" if value is None else str(value)


def _told(reason: Reason, problems: list[str]) -> dict[str, Any]:
    return {"reason": reason, "problem": "; ".join(problems)} if problems else {}


Step: TypeAlias = Literal["Create", "Apply", "Replace", "Keep"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """What is done about the StatefulSet and its pod."""

    manifest: Manifest
    step: Step
    """Replace: deleted without its pod, and made anew with the same template."""
    restarts: bool = False
    """This step ends with another pod."""
    waiting: tuple[str, ...] = ()
    """What of it waits for somebody."""
    restart: bool = False
    """The pod must go by hand: its StatefulSet does not restart it by itself."""
    problem: str = ""
    is_release: bool = False
    """What waits is what a new release renders, and nothing else holds it up."""


def decide_rollout(
    stateful_set: Object | None,
    pod: Object | None,
    wanted: Manifest,
    *,
    releases_restart: bool = False,
) -> Rollout:
    """From the StatefulSet and the pod that are there to the one that is wanted.

    `releases_restart`: it may take over now what only a new release renders. A pod that never ran
    takes over everything, and is deleted where its StatefulSet waits for that.
    """
    is_idle = pod is not None and is_stuck(pod, CONTAINER)
    releases_restart = releases_restart or is_idle
    staged = stage(stateful_set, wanted, releases_restart=releases_restart)
    rendered = wanted["spec"]["template"]["metadata"]["annotations"]
    lacks = Change.NONE if pod is None else change(_annotations(pod), rendered)
    waiting = staged.waiting
    manifest = staged.manifest
    is_manual = wanted["spec"]["updateStrategy"]["type"] == "OnDelete"
    if lacks is Change.RELEASE and not waiting and not releases_restart:
        # A StatefulSet that was lost took the old template along: its pod runs on with that.
        manifest = _on_delete(manifest)
        waiting = ("the pod template of this release of the operator",)
    is_release = bool(waiting) and not is_manual
    if is_manual and lacks is Change.USER and not is_idle:
        waiting = ("a change of the spec: delete the pod, or set the annotation restart-at",)
    is_asked = pod is not None and _asks_for_restart(pod, rendered)
    restart = is_manual and (is_asked or (is_idle and lacks is not Change.NONE))
    step, problem = _step(stateful_set, manifest)
    due = (Change.USER, Change.RESTART, *([Change.RELEASE] if releases_restart else []))
    is_due = lacks in due and not is_manual and step == "Apply"
    return Rollout(
        manifest,
        step,
        restarts=restart or (is_due and not _is_written(stateful_set, manifest)),
        waiting=waiting,
        restart=restart,
        problem=problem,
        is_release=is_release and step != "Keep",
    )


def _is_written(running: Object | None, manifest: Manifest) -> bool:
    if running is None:
        return False
    marks = [_annotations(item["spec"]["template"]) for item in (running, manifest)]
    return change(*marks) is Change.NONE


def _asks_for_restart(pod: Object, rendered: Mapping[str, str]) -> bool:
    asked = rendered.get(RESTART_AT, "")
    return asked not in ("", _annotations(pod).get(RESTART_AT, ""))


def _step(running: Object | None, manifest: Manifest) -> tuple[Step, str]:
    if running is None:
        return "Create", ""
    old, new = running["spec"], manifest["spec"]
    if old["selector"] != new["selector"]:
        # A new one would not find the pod that runs, which has its name.
        text = f"StatefulSet {manifest['metadata']['name']}: spec.selector is not the one that "
        return "Keep", text + "this operator makes: it is left as it is; put the selector back"
    has_moved = any(old.get(name) != new[name] for name in _REPLACING)
    return "Replace" if has_moved or _claims(old) != _claims(new) else "Apply", ""


def _claims(spec: Mapping[str, Any]) -> list[object]:
    """What of the claim templates counts. The API server adds to them."""
    return [
        (
            template["metadata"]["name"],
            units.quantity(requested(template)),
            template["spec"]["accessModes"],
            template["spec"].get("storageClassName"),
        )
        for template in spec.get("volumeClaimTemplates", ())
    ]


def _on_delete(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "updateStrategy": {"type": "OnDelete"}}}


def _annotations(value: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = value["metadata"].get("annotations", {})
    return found
