"""The Kubernetes API in memory, as far as the operator asks it: an honest one.

Objects have uid, generation and resourceVersion, which stays when nothing changed; the status is a
subresource, checked against the schema; server-side apply keeps track of who owns which field;
finalizers hold deletions up; what was owned by a deleted object goes too; a namespace ends when it
is empty.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema

from iggy_operator import API_VERSION
from iggy_operator.clock import Clock
from iggy_operator.cluster import (
    FIELD_MANAGER,
    ConflictError,
    Event,
    InvalidError,
    NotFoundError,
    Object,
    Propagation,
    Ref,
)
from iggy_operator.objects import ref_of
from iggy_operator.schema import schemas, with_defaults
from iggy_operator.units import time_text
from planted_faults import Faults

Path = tuple[Any, ...]
USER = "kubectl"
# Lists that are maps: a field of the item tells which one it is. All others are one value.
_KEYED = {"conditions": "type", "sinks": "name", "accessTokens": "name", "ownerReferences": "uid"}
_ATOMIC = ("selector", "nodeSelector")  # maps that are one value (Kubernetes)
_IDENTITY = [("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")]


class FakeCluster:
    """What `Cluster` says, and below that what people do with kubectl."""

    def __init__(self, clock: Clock, faults: Faults | None = None) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.events: list[Event] = []
        self.missing_kinds: set[str] = set()  # their definitions are not installed
        self.watchers: list[Callable[[Ref, Object | None], None]] = []
        self.admission: list[Callable[[Mapping[str, Any], Mapping[str, Any]], None]] = []
        """Each sees the old and the new state of an object, and may raise InvalidError."""
        self.check_right: Callable[[str, object], None] = lambda verb, what: None
        """Fails for a call that the API server would not allow."""
        self._numbers = itertools.count(1)
        self._owners: dict[str, dict[Path, set[str]]] = {}  # uid -> field -> managers

    async def get(self, ref: Ref) -> Object:
        call = await self._begin("get", ref, is_write=False)
        value = copy.deepcopy(self._found(ref))
        self.faults.after(call)
        return value

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        call = await self._begin("list", kind, is_write=False)
        if kind in self.missing_kinds:
            raise NotFoundError(f"there is no kind {kind}")
        wanted = set((labels or {}).items())
        found = [
            copy.deepcopy(value)
            for ref, value in self.objects.items()
            if ref.kind == kind
            and namespace in (None, ref.namespace)
            and wanted <= set(value["metadata"].get("labels", {}).items())
        ]
        self.faults.after(call)
        return found

    async def create(self, value: Object) -> Object:
        call = await self._begin("create", ref_of(value), is_write=True)
        if ref_of(value) in self.objects:
            raise ConflictError(f"{ref_of(value)} exists already")
        made = self._create(value, FIELD_MANAGER)
        self.faults.after(call)
        return made

    async def apply(self, value: Object) -> Object:
        return await self._apply("apply", value, status=False)

    async def apply_status(self, value: Object) -> Object:
        self._check_status(value)
        return await self._apply("apply_status", value, status=True)

    async def delete(self, ref: Ref, *, uid: str, propagation: Propagation = "Background") -> None:
        call = await self._begin("delete", ref, is_write=True)
        self._check_uid(ref, uid)
        self._delete(ref, orphan=propagation == "Orphan")
        self.faults.after(call)

    async def add_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        call = await self._begin("add_finalizer", ref, is_write=True)
        metadata = self._check_uid(ref, uid)["metadata"]
        if finalizer not in metadata.get("finalizers", ()):
            if "deletionTimestamp" in metadata:
                raise InvalidError("metadata.finalizers: Forbidden: the object is being deleted")
            metadata.setdefault("finalizers", []).append(finalizer)
            self._wrote(ref)
        self.faults.after(call)
        return copy.deepcopy(self.objects[ref])

    async def remove_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        call = await self._begin("remove_finalizer", ref, is_write=True)
        value: dict[str, Any] = self._check_uid(ref, uid)
        if finalizer in value["metadata"].get("finalizers", ()):
            value["metadata"]["finalizers"].remove(finalizer)
            self._wrote(ref)
            self._collect(ref)
        self.faults.after(call)
        return copy.deepcopy(value)

    async def record(self, event: Event) -> None:
        call = await self._begin("record", ref_of(event.about), is_write=True)
        self.events.append(event)
        self.faults.after(call)

    # What people do.

    def put(self, value: Mapping[str, Any], *, namespace: str = "shop") -> dict[str, Any]:
        """Create or replace, as `kubectl replace` does; the status stays."""
        given = copy.deepcopy(dict(value))
        given["metadata"] = {"namespace": namespace} | given["metadata"]
        ref = ref_of(given)
        if ref not in self.objects:
            return self._create(given, USER)
        old = self.objects[ref]
        new: dict[str, Any] = copy.deepcopy(old)
        new |= {key: item for key, item in given.items() if key not in ("metadata", "status")}
        for key in ("labels", "annotations"):
            new["metadata"].pop(key, None)
            if key in given["metadata"]:
                new["metadata"][key] = given["metadata"][key]
        self._replace(ref, new)
        return copy.deepcopy(self.objects[ref])

    def annotate(self, ref: Ref, name: str, text: str | None) -> None:
        """One of our annotations; None takes it away."""
        new = copy.deepcopy(self._found(ref))
        annotations = new["metadata"].setdefault("annotations", {})
        annotations.pop(f"iggykube.dev/{name}", None)
        if text is not None:
            annotations[f"iggykube.dev/{name}"] = text
        self._replace(ref, new)

    def change_spec(self, ref: Ref, **fields: Any) -> None:
        """Some fields of the spec."""
        new = copy.deepcopy(self._found(ref))
        new["spec"] |= copy.deepcopy(fields)
        self._replace(ref, new)

    def wipe_status(self, ref: Ref) -> None:
        """As a restore from a backup does."""
        new = copy.deepcopy(self._found(ref))
        new["status"] = _with_defaults({**new, "status": None})["status"]
        self._replace(ref, new)

    def remove(self, ref: Ref) -> None:
        """`kubectl delete`."""
        self._delete(ref, orphan=False)

    def end_namespace(self, namespace: str) -> None:
        """`kubectl delete namespace`."""
        self.objects[Ref("Namespace", "", namespace)] = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "uid": f"namespace-{namespace}",
                "deletionTimestamp": self._now(),
            },
        }
        for ref in [ref for ref in self.objects if ref.namespace == namespace]:
            if ref in self.objects:
                self._delete(ref, orphan=False)

    def change(self, ref: Ref, **fields: Any) -> None:
        """Top-level fields by hand, such as the status that another controller writes."""
        new = copy.deepcopy(self._found(ref)) | copy.deepcopy(fields)
        self._replace(ref, new)

    def names(self, kind: str) -> Sequence[str]:
        return sorted(ref.name for ref in self.objects if ref.kind == kind)

    # How it works.

    async def _begin(self, verb: str, what: object, *, is_write: bool) -> Any:
        self.check_right(verb, what)
        await asyncio.sleep(0)  # others may go first
        return self.faults.before(verb, what, is_write=is_write)

    def _now(self) -> str:
        return time_text(self.clock.now_s())

    def _found(self, ref: Ref) -> dict[str, Any]:
        if ref not in self.objects:
            raise NotFoundError(f"{ref} is not there")
        return self.objects[ref]

    def _check_uid(self, ref: Ref, uid: str) -> dict[str, Any]:
        value = self._found(ref)
        if value["metadata"]["uid"] != uid:
            raise ConflictError(f"{ref} has another uid")
        return value

    def _create(self, value: Mapping[str, Any], manager: str) -> dict[str, Any]:
        new = copy.deepcopy(dict(value))
        number = next(self._numbers)
        if new["apiVersion"] == API_VERSION:
            new.pop("status", None)
            for path in _leaves({"spec": new.get("spec", {})}):
                self._own(f"uid-{number}", path, manager)
            new = _with_defaults(new)
        else:
            for path in _leaves({key: item for key, item in new.items() if key != "status"}):
                if path[:2] not in _IDENTITY and path[0] not in ("apiVersion", "kind"):
                    self._own(f"uid-{number}", path, manager)
        new["metadata"] |= {
            "uid": f"uid-{number}",
            "generation": 1,
            "creationTimestamp": self._now(),
        }
        _without_what_is_not_kept(new)
        self.objects[ref_of(new)] = new
        self._wrote(ref_of(new))
        return copy.deepcopy(new)

    def _replace(self, ref: Ref, new: dict[str, Any]) -> None:
        """Writes only if something differs."""
        old = self.objects[ref]
        _without_what_is_not_kept(new)
        if new == old:
            return
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        self.objects[ref] = new
        self._wrote(ref)

    async def _apply(self, verb: str, value: Object, *, status: bool) -> Object:
        ref = ref_of(value)
        call = await self._begin(verb, ref, is_write=True)
        self._check_uid(ref, value["metadata"]["uid"])
        if status:
            wanted = {"status": value.get("status", {})}
        else:
            wanted = {key: item for key, item in value.items() if key != "status"}
        old_owners = copy.deepcopy(self._owners.get(value["metadata"]["uid"], {}))
        new = self._merged(ref, _leaves(wanted), status=status)
        try:
            for check in self.admission:
                check(self.objects[ref], new)
        except InvalidError:
            self._owners[value["metadata"]["uid"]] = old_owners
            raise
        self._replace(ref, new)
        self.faults.after(call)
        return copy.deepcopy(self.objects[ref])

    def _merged(self, ref: Ref, leaves: Mapping[Path, Any], *, status: bool) -> dict[str, Any]:
        """Ours are exactly these fields now: others that only we had go."""
        old = self.objects[ref]
        uid = old["metadata"]["uid"]
        fields = _leaves(old)
        owners = self._owners.setdefault(uid, {})
        for path, managers in list(owners.items()):
            is_here = (path[0] == "status") == status
            if is_here and FIELD_MANAGER in managers and path not in leaves:
                managers.discard(FIELD_MANAGER)
                if not managers:
                    del owners[path]
                    fields.pop(path, None)
        for path, item in leaves.items():
            if path[:2] in _IDENTITY or path[0] in ("apiVersion", "kind"):
                continue
            fields[path] = item
            self._own(uid, path, FIELD_MANAGER)
        return _from_leaves(fields)

    def _own(self, uid: str, path: Path, manager: str) -> None:
        self._owners.setdefault(uid, {}).setdefault(path, set()).add(manager)

    def _check_status(self, value: Object) -> None:
        problems = list(_status_validator(value["kind"]).iter_errors(value.get("status", {})))
        if problems:
            raise InvalidError(f"{ref_of(value)}: {problems[0].message}")

    def _delete(self, ref: Ref, *, orphan: bool) -> None:
        value = self._found(ref)
        if value["metadata"].get("finalizers"):
            if "deletionTimestamp" not in value["metadata"]:
                value["metadata"]["deletionTimestamp"] = self._now()
                value["metadata"]["generation"] += 1
                self._wrote(ref)
            return
        self._purge(ref, orphan=orphan)

    def _collect(self, ref: Ref) -> None:
        metadata = self.objects[ref]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self._purge(ref, orphan=False)

    def _purge(self, ref: Ref, *, orphan: bool) -> None:
        uid = self.objects.pop(ref)["metadata"]["uid"]
        self._owners.pop(uid, None)
        for watcher in self.watchers:
            watcher(ref, None)
        for other, value in list(self.objects.items()):
            owners = value["metadata"].get("ownerReferences", [])
            left = [owner for owner in owners if owner["uid"] != uid]
            if owners and not left and not orphan and other in self.objects:
                self._delete(other, orphan=False)

    def _wrote(self, ref: Ref) -> None:
        self.objects[ref]["metadata"]["resourceVersion"] = str(next(self._numbers))
        for watcher in self.watchers:
            watcher(ref, copy.deepcopy(self.objects[ref]))


def _without_what_is_not_kept(value: dict[str, Any]) -> None:
    """The API server has no place for an empty `data`: one that is given is gone."""
    if value["kind"] in ("ConfigMap", "Secret") and not value.get("data"):
        value.pop("data", None)


def _with_defaults(value: dict[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = with_defaults(value, schemas()[value["kind"]].root)
    return filled


@cache
def _status_validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = schemas()[kind].json_schema["properties"]["status"]
    return jsonschema.Draft202012Validator(schema)


def _leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """Every field that holds a value, by its path; items of keyed lists are fields, too."""
    key = _KEYED.get(path[-1]) if path else None
    if isinstance(value, list) and key and all(isinstance(item, dict) for item in value):
        return {
            inner: leaf
            for item in value
            for inner, leaf in _leaves(item, (*path, (key, item[key]))).items()
        } or {path: []}
    if isinstance(value, dict) and value and not (path and path[-1] in _ATOMIC):
        return {
            inner: leaf
            for name, item in value.items()
            for inner, leaf in _leaves(item, (*path, name)).items()
        }
    return {path: copy.deepcopy(value)}


def _from_leaves(leaves: Mapping[Path, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, leaf in leaves.items():
        _set(result, path, copy.deepcopy(leaf))
    return result


def _set(result: Any, path: Path, leaf: Any) -> None:
    place = result
    for index, step in enumerate(path):
        is_last = index == len(path) - 1
        if isinstance(step, tuple):  # an item of a keyed list
            name, item_key = step
            item = next((item for item in place if item[name] == item_key), None)
            if item is None:
                item = {name: item_key}
                place.append(item)
            place = item
        elif is_last:
            place[step] = leaf
        else:
            place = place.setdefault(step, [] if isinstance(path[index + 1], tuple) else {})
