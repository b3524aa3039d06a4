"""Whether the cluster knows our kinds as this release does: asked before anything else is done.

Helm never upgrades what lies in a chart's `crds` folder, and a status field that the API server
does not know is cut off without a word. What the server publishes as OpenAPI may be read by
everybody who is logged in, so no right on resource definitions is needed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from iggy_operator.cluster import ClusterError, NotFoundError
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_kinds import OPENAPI_PATH
from iggy_operator.schema import schemas

FIELDS_SHOWN_MAX: Final = 3
_FIX: Final = "bring the resource definitions up to date: kubectl apply --server-side -f crds/"
_Node = Mapping[str, Any]


async def trouble_with_definitions(client: ApiClient) -> str:
    """What is wrong with the installed definitions and how to mend it; empty if nothing is."""
    try:
        document = await client.get(OPENAPI_PATH)
    except NotFoundError:
        return f"the cluster does not know our kinds yet: {_FIX}"
    except ClusterError as error:
        return f"the API server does not tell what kinds it knows: {error}"
    return compared(document)


def compared(document: Mapping[str, Any]) -> str:
    """The same for what the API server has published."""
    known = {}
    for node in document.get("components", {}).get("schemas", {}).values():
        for kind in node.get("x-kubernetes-group-version-kind", ()):
            known[kind["kind"]] = node
    missing = []
    for name, schema in schemas().items():
        if name not in known:
            return f"the cluster does not know kind {name}: {_FIX}"
        for part in ("spec", "status"):
            node = known[name].get("properties", {}).get(part, {})
            wanted = schema.root["properties"].get(part, {})
            missing += [f"{name}.{part}{path}" for path in _missing(wanted, node)]
    if not missing:
        return ""
    more = f" and {len(missing) - FIELDS_SHOWN_MAX} more" if len(missing) > FIELDS_SHOWN_MAX else ""
    fields = ", ".join(missing[:FIELDS_SHOWN_MAX])
    return f"the installed definitions are too old, they lack {fields}{more}: {_FIX}"


def _missing(wanted: _Node, known: _Node) -> Iterator[str]:
    """Fields that we know and the server does not."""
    properties = known.get("properties", {})
    for name, node in wanted.get("properties", {}).items():
        if name not in properties:
            yield f".{name}"
        else:
            yield from (f".{name}{path}" for path in _missing(node, properties[name]))
    if "items" in wanted:
        yield from (f"[]{path}" for path in _missing(wanted["items"], known.get("items", {})))
