"""Names, labels, annotations and owners of the objects that the operator makes."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from iggy_operator import API_GROUP
from iggy_operator.names import NAME_CHARACTERS_MAX

Manifest: TypeAlias = dict[str, Any]

MANAGER: Final = "iggy-operator"
MANAGED_LABEL: Final = "app.kubernetes.io/managed-by"
BROKER_LABEL: Final = f"{API_GROUP}/broker"
TOPIC_LABEL: Final = f"{API_GROUP}/topic"
SINK_LABEL: Final = f"{API_GROUP}/sink"
SINK_UID_LABEL: Final = f"{API_GROUP}/sink-uid"
SOURCE_LABEL: Final = f"{API_GROUP}/source"
SOURCE_UID_LABEL: Final = f"{API_GROUP}/source-uid"
USER_LABEL: Final = f"{API_GROUP}/user"

USER_HASH: Final = f"{API_GROUP}/user-hash"
RELEASE_HASH: Final = f"{API_GROUP}/release-hash"
RESTART_AT: Final = f"{API_GROUP}/restart-at"

HASH_CHARACTERS: Final = 16
MARK_CHARACTERS: Final = 8
"""Hex digits that keep a shortened name unique."""
# DNS-1035: what a Service may be called (Kubernetes).
_DNS_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a child belongs to, and with which Kubernetes deletes it."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def reference(self) -> Manifest:
        """As in `metadata.ownerReferences`. Never blocks the owner's deletion."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


def owner_of(value: Mapping[str, Any]) -> Owner:
    """An object of the cluster as the owner of others."""
    metadata = value["metadata"]
    return Owner(value["apiVersion"], value["kind"], metadata["name"], metadata["uid"])


@dataclass(frozen=True, slots=True)
class Family:
    """What the children of one object have in common."""

    namespace: str
    labels: Mapping[str, str]
    owner: Owner

    def metadata(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        is_owned: bool = True,
    ) -> Manifest:
        """Metadata of a child. Our labels win over `labels`, which are the user's."""
        result: Manifest = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**(labels or {}), **self.labels},
        }
        if annotations:
            result["annotations"] = dict(annotations)
        if is_owned:
            result["ownerReferences"] = [self.owner.reference]
        return result


def labels(part: str, instance: str, own: Mapping[str, str]) -> dict[str, str]:
    """The five recommended labels and `own`. `part`: broker, sink, source or user.

    Nothing in here changes with a release: a selector never could.
    """
    return {
        "app.kubernetes.io/name": f"iggy-{part}",
        "app.kubernetes.io/instance": label_value(instance),
        "app.kubernetes.io/component": part,
        "app.kubernetes.io/part-of": "iggykube",
        MANAGED_LABEL: MANAGER,
        **{name: label_value(value) for name, value in own.items()},
    }


def label_value(text: str) -> str:
    """A name as a label's value. What is too long is cut and marked with its hash."""
    if len(text) <= NAME_CHARACTERS_MAX:
        return text
    kept = NAME_CHARACTERS_MAX - MARK_CHARACTERS - 1
    return f"{text[:kept].rstrip('-._')}-{mark(text)}"


def dns_label(name: str) -> str:
    """The name itself if a Service may have it, else a like one with its hash.

    Depends on the name alone: who makes the object anew finds the same volume again.
    """
    if _DNS_LABEL.fullmatch(name):
        return name
    return f"b-{name.replace('.', '-')}-{mark(name)}"


def mark(text: str) -> str:
    """Eight hex digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:MARK_CHARACTERS]


def content_hash(value: object) -> str:
    """The same for equal values, whatever the order of their fields."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_CHARACTERS]


def without_defaults(value: Any, node: Mapping[str, Any]) -> Any:
    """What of a value was really asked for: its schema's defaults and empty parts are left out.

    So a field that a later release adds, with a default, changes no hash.
    """
    if not isinstance(value, Mapping):
        return value
    properties = node.get("properties", {})
    extra = node.get("additionalProperties")
    extra = extra if isinstance(extra, Mapping) else {}
    result = {}
    for name, item in value.items():
        child = properties.get(name, extra)
        kept = without_defaults(item, child)
        if kept in (None, {}, []) or ("default" in child and kept == child["default"]):
            continue
        result[name] = kept
    if result.get("pathStyle") is False and "endpoint" not in result:
        # It says no more than its absence, and objects have it that were stored when it was a
        # default of the schema: their pods go on.
        del result["pathStyle"]
    return result
