"""`Cluster` on a real API server. Every write is a server-side apply, or guarded by the uid."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from iggy_operator.clock import Clock
from iggy_operator.cluster import (
    FIELD_MANAGER,
    ClusterError,
    ConflictError,
    DeniedError,
    Event,
    InvalidError,
    NotFoundError,
    Object,
    Propagation,
    Ref,
    ServerFailedError,
)
from iggy_operator.objects import ref_of, uid_of
from iggy_operator.program.api_client import APPLY, JSON_PATCH, ApiClient
from iggy_operator.program.api_kinds import API_KINDS, path_of
from iggy_operator.units import time_text

_LOG: Final = logging.getLogger(__name__)
PAGE_OBJECTS: Final = 500
"""Of a list: more come in further requests."""
NOTE_CHARACTERS_MAX: Final = 1_024
"""Of an event's message (events.k8s.io)."""
_ATTEMPTS: Final = 5
"""Of a write that was made from what somebody else has changed meanwhile."""
_NO_FIT: Final = "failed to create typed patch object"
"""With this the API server calls an object that does not fit its schema a failure of its own."""
_NO_SUCH_VERSION: Final = "1"
"""A resourceVersion that no object has: an apply with it can only create."""


class ApiCluster:
    """What `Cluster` says."""

    def __init__(
        self, client: ApiClient, clock: Clock, *, identity: str, namespaces: Sequence[str] = ()
    ) -> None:
        """`namespaces`: those that are watched, none for all; `identity` signs events."""
        self._client = client
        self._clock = clock
        self._identity = identity
        self._namespaces = tuple(namespaces)

    async def get(self, ref: Ref) -> Object:
        """As `Cluster.get`."""
        found: Object = await self._client.get(path_of(ref))
        return found

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        """As `Cluster.list`; without a namespace, all of those that are watched.

        Our Role goes with its namespace: one in which we may do nothing does not stop the others.
        """
        api_kind = API_KINDS[kind]
        query = {"limit": str(PAGE_OBJECTS)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={item}" for key, item in labels.items())
        names = self._namespaces or ("",) if namespace is None else (namespace,)
        found: list[Object] = []
        denied = []
        for name in names:
            try:
                items = await self._pages(api_kind.path(namespace=name), query)
            except DeniedError as error:
                denied.append(error)
                continue
            # Items of a list do not say what they are.
            what = {"apiVersion": api_kind.api_version, "kind": api_kind.kind}
            found += [{**what, **item} for item in items]
        if len(denied) == len(names):
            raise denied[0]
        for refusal in denied:
            _LOG.warning("left out: %s", refusal)
        return found

    async def _pages(self, path: str, query: Mapping[str, str]) -> Sequence[Object]:
        found: list[Object] = []
        place = ""
        while True:
            page = await self._client.get(path, {**query, "continue": place} if place else query)
            found += page.get("items") or ()
            place = page.get("metadata", {}).get("continue", "")
            if not place:
                return found

    async def create(self, value: Object) -> Object:
        """As `Cluster.create`."""
        metadata = {**value["metadata"], "resourceVersion": _NO_SUCH_VERSION}
        return await self._apply({**value, "metadata": metadata})

    async def apply(self, value: Object) -> Object:
        """As `Cluster.apply`."""
        return await self._apply({key: item for key, item in value.items() if key != "status"})

    async def apply_status(self, value: Object) -> Object:
        """As `Cluster.apply_status`.

        The API server does not look at the uid of a status: so we do, and write to that very state.
        """
        ref, uid = ref_of(value), uid_of(value)
        for attempt in range(_ATTEMPTS):
            known = await self.get(ref)
            if uid_of(known) != uid:
                break
            version = {"resourceVersion": known["metadata"]["resourceVersion"]}
            guarded = {**value, "metadata": {**value["metadata"], **version}}
            try:
                return await self._apply(guarded, subresource="status")
            except ConflictError:  # somebody else was faster
                if attempt == _ATTEMPTS - 1:
                    raise
        raise ConflictError(f"{ref} is another object by now")

    async def _apply(self, value: Mapping[str, Any], *, subresource: str = "") -> Object:
        ref = ref_of(value)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = path_of(ref, subresource=subresource)
        try:
            applied: Object = await self._client.request(
                "PATCH", path, query=query, body=value, content=APPLY
            )
        except InvalidError as error:
            if "metadata.uid" in str(error):
                raise ConflictError(f"{ref} is another object by now") from error
            raise
        except ServerFailedError as error:
            if _NO_FIT in str(error):
                raise InvalidError(str(error)) from error
            raise
        return applied

    async def delete(self, ref: Ref, *, uid: str, propagation: Propagation = "Background") -> None:
        """As `Cluster.delete`."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        await self._client.request("DELETE", path_of(ref), body=body)

    async def add_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        """As `Cluster.add_finalizer`."""
        return await self._change_finalizers(ref, uid, finalizer, is_wanted=True)

    async def remove_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        """As `Cluster.remove_finalizer`."""
        return await self._change_finalizers(ref, uid, finalizer, is_wanted=False)

    async def _change_finalizers(
        self, ref: Ref, uid: str, finalizer: str, *, is_wanted: bool
    ) -> Object:
        """A patch that tests what it was made from, so that nobody's change is lost."""
        for attempt in range(_ATTEMPTS):
            value = await self.get(ref)
            if uid_of(value) != uid:
                raise ConflictError(f"{ref} is another object by now")
            if (finalizer in value["metadata"].get("finalizers", ())) == is_wanted:
                return value
            try:
                changed: Object = await self._client.request(
                    "PATCH",
                    path_of(ref),
                    query={"fieldManager": FIELD_MANAGER},
                    body=_finalizer_patch(value, finalizer, is_wanted=is_wanted),
                    content=JSON_PATCH,
                )
            except (ConflictError, InvalidError):  # a test failed: somebody else was faster
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return changed
        raise AssertionError("the last attempt returns or raises")

    async def record(self, event: Event) -> None:
        """As `Cluster.record`. In a namespace that ends nothing can be told: that is no error."""
        try:
            await self._client.request(
                "POST",
                API_KINDS["Event"].path(namespace=event.about["metadata"]["namespace"]),
                body=_event(event, self._identity, self._clock.now_s()),
            )
        except NotFoundError:
            return  # the namespace is gone
        except ClusterError as error:
            if "being terminated" not in str(error):
                raise


def _finalizer_patch(value: Object, finalizer: str, *, is_wanted: bool) -> list[dict[str, Any]]:
    metadata = value["metadata"]
    present = metadata.get("finalizers", [])
    guards = [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
    ]
    if not is_wanted:
        index = present.index(finalizer)
        return [*guards, {"op": "remove", "path": f"/metadata/finalizers/{index}"}]
    if not present:
        return [*guards, {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}]
    return [*guards, {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]


def _event(event: Event, identity: str, now_s: float) -> dict[str, Any]:
    about, metadata = event.about, event.about["metadata"]
    seconds = time_text(now_s).removesuffix("Z")
    return {
        "apiVersion": API_KINDS["Event"].api_version,
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:200]}.{secrets.token_hex(8)}",
            "namespace": metadata["namespace"],
        },
        "eventTime": f"{seconds}.{int(now_s % 1 * 1e6):06d}Z",
        "reportingController": FIELD_MANAGER,
        "reportingInstance": identity,
        "action": "Reconcile",
        "reason": event.reason,
        "type": "Warning" if event.is_warning else "Normal",
        "note": event.message[:NOTE_CHARACTERS_MAX],
        "regarding": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }
