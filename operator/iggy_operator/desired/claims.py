"""Claims of volumes: a broker's messages, the checkpoint of a sink or source."""

from collections.abc import Mapping
from typing import Any

from iggy_operator.desired.metadata import Manifest


def volume_claim(wanted: Mapping[str, Any], metadata: Manifest) -> Manifest:
    """`wanted`: accessMode, size and perhaps storageClassName, as our kinds have them."""
    spec: Manifest = {
        "accessModes": [wanted["accessMode"]],
        "resources": {"requests": {"storage": wanted["size"]}},
    }
    if "storageClassName" in wanted:
        spec["storageClassName"] = wanted["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }
