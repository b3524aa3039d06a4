"""Which change a running pod must take over now, and which one waits.

A pod carries two hashes: of what the user asked for, and of everything that a release renders from
it. A user's change restarts at once. A change that only a new release brings waits for the next
one of the user, or for somebody who asks for the restart. A pod that never ran waits for nobody: so
a wrong image of the installation heals once it is corrected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from iggy_operator.desired.metadata import (
    RELEASE_HASH,
    RESTART_AT,
    USER_HASH,
    Manifest,
    content_hash,
)


class Change(Enum):
    """What a running pod lacks."""

    NONE = "nothing"
    RELEASE = "what a new release of the operator brings"
    USER = "a change of the resource"
    RESTART = "a restart that was asked for"


_ON_ITS_WAY: Final = ("ContainerCreating", "PodInitializing")


def is_stuck(pod: Mapping[str, Any], container: str) -> bool:
    """Whether a pod's container has never run and cannot start, as without its image.

    Nothing is disturbed when such a pod goes. Containers before it count, too.
    """
    status = pod.get("status") or {}
    rows = [row for row in status.get("containerStatuses") or () if row.get("name") == container]
    if any(map(_has_run, rows)):
        return False
    return any(map(_cannot_start, (*rows, *(status.get("initContainerStatuses") or ()))))


def _has_run(status: Mapping[str, Any]) -> bool:
    return bool(status.get("restartCount") or status.get("lastState"))


def _cannot_start(status: Mapping[str, Any]) -> bool:
    reason = ((status.get("state") or {}).get("waiting") or {}).get("reason")
    return bool(reason) and reason not in _ON_ITS_WAY and not _has_run(status)


def marks(*, asked: object, rendered: object, restart_at: str) -> dict[str, str]:
    """The annotations by which `change` judges later."""
    result = {USER_HASH: content_hash(asked), RELEASE_HASH: content_hash(rendered)}
    return {**result, RESTART_AT: restart_at} if restart_at else result


def change(running: Mapping[str, str], wanted: Mapping[str, str]) -> Change:
    """Compare annotations of what runs with those of what is wanted.

    A mark for a restart that is taken away again asks for nothing.
    """
    if running.get(USER_HASH) != wanted[USER_HASH]:
        return Change.USER
    if wanted.get(RESTART_AT, "") not in ("", running.get(RESTART_AT, "")):
        return Change.RESTART
    return Change.NONE if running.get(RELEASE_HASH) == wanted[RELEASE_HASH] else Change.RELEASE


@dataclass(frozen=True, slots=True)
class Staged:
    """A StatefulSet to apply now, and what it does not contain yet."""

    manifest: Manifest
    change: Change
    waiting: tuple[str, ...] = ()
    """What the new release would alter, for people."""


_SHOWN_MAX: Final = 8


def stage(
    running: Mapping[str, Any] | None, wanted: Manifest, *, releases_restart: bool = False
) -> Staged:
    """The StatefulSet to apply, with the running pod template as long as the new one must wait.

    `releases_restart`: a new release may restart, too, or there is nothing that runs.
    """
    if running is None:
        return Staged(wanted, Change.NONE)
    old, new = running["spec"]["template"], wanted["spec"]["template"]
    annotations = old["metadata"].get("annotations", {})
    found = change(annotations, new["metadata"]["annotations"])
    if found is Change.RELEASE and not releases_restart:
        return Staged(_with_template(wanted, old), found, tuple(differences(old, new)))
    if RESTART_AT in annotations and RESTART_AT not in new["metadata"]["annotations"]:
        kept = {**new["metadata"]["annotations"], RESTART_AT: annotations[RESTART_AT]}
        new = {**new, "metadata": {**new["metadata"], "annotations": kept}}
    return Staged(_with_template(wanted, new), found)


def _with_template(manifest: Manifest, template: Mapping[str, Any]) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "template": template}}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a new template says otherwise than a running one, such as `image: a → b`.

    Only fields of the new one count: the API server adds many to the old one.
    """
    found = list(_differences(old, new, path=""))
    return found[:_SHOWN_MAX] or ["a part of the pod that was left out"]


def _differences(old: Any, new: Any, *, path: str) -> list[str]:
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return [
            line
            for name, item in new.items()
            if name not in (USER_HASH, RELEASE_HASH)
            for line in _differences(old.get(name), item, path=f"{path}.{name}".lstrip("."))
        ]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        pairs = zip(old, new, strict=True)
        return [line for pair in pairs for line in _differences(*pair, path=path)]
    if old == new:
        return []
    name = path.rsplit(".", 1)[-1]
    if isinstance(new, str | int) and isinstance(old, str | int):
        return [f"{name}: {old} → {new}"]
    return [path]
