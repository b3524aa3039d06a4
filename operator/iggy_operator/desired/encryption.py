"""Keys of a broker's messages: files from a Secret, which the broker reads at its start."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from iggy_operator.desired.metadata import Manifest
from iggy_operator.resources import Broker

KEYS_PATH: Final = "/etc/iggy-keys"
KEYS_VOLUME: Final = "keys"
FILE_MODE: Final = 0o440
"""Readable by the pod's group, whose number Kubernetes gives to the files."""

_VARIABLE: Final = "IGGY_SYSTEM_ENCRYPTION_"


def encryption_settings(broker: Broker, folder: str = KEYS_PATH) -> dict[str, str]:
    """By environment variable: no key is in them."""
    block: Mapping[str, Any] | None = broker.spec.get("encryption")
    if block is None:
        return {}
    settings = {
        f"{_VARIABLE}ENABLED": "true" if block["enabled"] else "false",
        f"{_VARIABLE}KEY_FILE": f"{folder}/{block['key']}",
    }
    if old := block.get("oldKeys"):
        settings[f"{_VARIABLE}OLD_KEY_FILES"] = ",".join(f"{folder}/{name}" for name in old)
    return settings


def key_names(broker: Broker) -> tuple[str, ...]:
    """Entries of the Secret that must be there."""
    block: Mapping[str, Any] = broker.spec.get("encryption", {})
    return (block["key"], *block.get("oldKeys", ())) if block else ()


def encryption_volumes(broker: Broker) -> Iterator[Manifest]:
    """The Secret, with nothing of it but the keys that are named."""
    if names := key_names(broker):
        yield {
            "name": KEYS_VOLUME,
            "secret": {
                "secretName": broker.spec["encryption"]["secretName"],
                "defaultMode": FILE_MODE,
                "items": [{"key": name, "path": name} for name in names],
            },
        }


def encryption_mounts(broker: Broker) -> list[Manifest]:
    """Of the broker's container, and of the one that restores."""
    if "encryption" not in broker.spec:
        return []
    return [{"name": KEYS_VOLUME, "mountPath": KEYS_PATH, "readOnly": True}]
