"""Secrets: their names, types and keys. The values are put in by whoever has them."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from iggy_operator.desired.broker import broker_family
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.metadata import (
    USER_LABEL,
    Family,
    Manifest,
    Owner,
    label_value,
    labels,
)
from iggy_operator.resources import Broker, User

BINDING_TYPE: Final = "servicebinding.io/iggy"
BINDING_KEYS: Final = ("type", "provider", "host", "port", "username", "password", "uri")
BINDING_OPTIONAL: Final = ("http-url", "ca.crt")
"""Only where the broker has an HTTP API, or an authority of its own."""


@dataclass(frozen=True, slots=True)
class SecretShape:
    """A Secret without its values."""

    manifest: Manifest
    keys: tuple[str, ...]
    optional: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Of the Secret."""
        return str(self.manifest["metadata"]["name"])

    def filled(self, values: Mapping[str, str]) -> Manifest:
        """The Secret to apply. It must have all keys, and no other."""
        missing = set(self.keys) - set(values)
        unknown = set(values) - {*self.keys, *self.optional}
        assert not missing and not unknown, f"keys: missing {missing}, unknown {unknown}"
        data = {key: base64.b64encode(values[key].encode()).decode() for key in sorted(values)}
        return {**self.manifest, "data": data}


def root_secret(broker: Broker, owner: Owner) -> SecretShape:
    """Of the root user of a managed broker, as its volume knows it."""
    metadata = _root_metadata(broker, owner, broker_names(broker.key.name).root_secret)
    return SecretShape(_secret("kubernetes.io/basic-auth", metadata), ("username", "password"))


def root_secret_next(broker: Broker, owner: Owner) -> SecretShape:
    """Of a password of root that the broker may not have yet."""
    metadata = _root_metadata(broker, owner, broker_names(broker.key.name).root_secret_next)
    return SecretShape(_secret("Opaque", metadata), ("password",))


def _root_metadata(broker: Broker, owner: Owner, name: str) -> Manifest:
    assert broker.mode == "Managed", "others have their own root"
    storage = broker.spec["storage"]
    # The volume knows its password, so the Secret stays as long as the volume does.
    is_owned = storage["ephemeral"] or storage["retentionPolicy"] == "Delete"
    return broker_family(broker, owner).metadata(name, is_owned=is_owned)


def user_secret(user: User, owner: Owner) -> SecretShape:
    """Of a user, in the form of the Service Binding specification."""
    template = user.spec.get("secretTemplate", {})
    metadata = _user_metadata(user, owner, template.get("name", f"{user.key.name}-iggy"))
    return SecretShape(_secret(BINDING_TYPE, metadata), BINDING_KEYS, BINDING_OPTIONAL)


def token_secret(user: User, token: str, owner: Owner) -> SecretShape:
    """Of one access token of a user."""
    name = label_value(f"{user.key.name}-iggy.{token}")
    return SecretShape(_secret("Opaque", _user_metadata(user, owner, name)), ("token",))


def _user_metadata(user: User, owner: Owner, name: str) -> Manifest:
    template = user.spec.get("secretTemplate", {})
    key = user.key
    family = Family(key.namespace, labels("user", key.name, {USER_LABEL: key.name}), owner)
    return family.metadata(
        name, labels=template.get("labels"), annotations=template.get("annotations")
    )


def _secret(kind: str, metadata: Mapping[str, Any]) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": dict(metadata)}
