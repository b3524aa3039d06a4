"""Sources that must be accepted or refused: see `resource_cases`."""

from collections.abc import Mapping
from typing import Any

from iggy_operator.schema import schemas
from resource_case import Case
from resource_documents import LAKE, MADE, S3, source, topic, with_source
from schema_samples import whole
from sink_blocks import BUCKET
from source_blocks import CHANGES, POLLING, SYSTEMS


def of_type(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """An IggySource of another type than MADE."""
    return source(**{"type": kind, "random": None, kind.lower(): dict(block)})


def full(kind: str, name: str) -> dict[str, Any]:
    """An entry of a topic with every field that its type may have."""
    properties = schemas()["IggySource"].root["properties"]["spec"]["properties"]
    blocks = {other.lower() for other in SYSTEMS}
    fields = {k: v for k, v in properties.items() if k not in {*blocks, "topicRef"}}
    entry = whole({"type": "object", "properties": fields})
    checkpoint = S3 | {"s3": BUCKET["s3"]}
    block = {kind.lower(): SYSTEMS[kind]}
    return {**entry, **block, "name": name, "type": kind, "checkpoint": checkpoint}


SOURCE_CASES = [
    Case("source: made-up messages", with_source()),
    *[
        Case(f"source: {kind} with everything",
             of_type(kind, block))
        for kind, block in SYSTEMS.items()
    ],
    *[
        Case(f"source: {kind} without its block", with_source(type=kind, random=None), None,
             "spec.sources[0]", f"{kind.lower()} must be set if, and only if")
        for kind in SYSTEMS
    ],
    Case("source: a block without its type", with_source(files={"path": "/in"}), None,
         "spec.sources[0]", "files must be set if, and only if, type is Files"),
    Case("source: unknown type", with_source(type="Postgresql"), None, "spec.sources[0].type",
         "did you mean Postgres?"),
    Case("source: other type",
         of_type("Files", {"path": "/in"}), source(), "spec.type",
         "use a new source name"),
    Case("source: no checkpoint", with_source(checkpoint=None), None,
         "spec.sources[0].checkpoint", "is missing"),
    Case("source: moved checkpoint", with_source(checkpoint={"location": "s3a://lake/other"}),
         with_source(checkpoint=S3), "spec.sources[0].checkpoint", "use a new source name"),
    Case("source: polling", of_type("Postgres", POLLING)),
    Case("source: polling without a cursor",
         with_source(type="Postgres", random=None,
                     postgres={k: v for k, v in POLLING.items() if k == "url"}
                     | {"mode": "Polling", "tables": ["public.orders"]}),
         None, "spec.sources[0].postgres", "mode Polling needs cursorColumn"),
    Case("source: polling of two tables",
         of_type("Postgres", POLLING | {"tables": ["public.a", "public.b"]}),
         None, "spec.postgres", "mode Polling reads one table"),
    Case("source: a slot for polling",
         of_type("Postgres", POLLING | {"slot": "orders"}), None,
         "spec.postgres", "slot, publication and snapshot go with mode Changes"),
    Case("source: a cursor for changes",
         of_type("Postgres", CHANGES | {"cursorColumn": "id"}), None,
         "spec.postgres", "cursorColumn and keyColumns go with mode Polling"),
    Case("source: other mode",
         of_type("Postgres", POLLING),
         of_type("Postgres", CHANGES), "spec.postgres.mode",
         "the mode of a source cannot change"),
    Case("source: one table more",
         of_type("Postgres", CHANGES | {"tables": [*CHANGES["tables"], "public.returns"]}),
         of_type("Postgres", CHANGES)),
    Case("source: a table twice",
         of_type("Postgres", CHANGES | {"tables": ["a.b", "a.b"]}), None,
         "spec.postgres.tables[1]", "same as entry 0"),
    Case("source: a table without its schema",
         of_type("Postgres", CHANGES | {"tables": ["orders"]}), None,
         "spec.postgres.tables[0]", "such as public.orders"),
    Case("source: no table",
         of_type("Postgres", CHANGES | {"tables": []}), None,
         "spec.postgres.tables", "at least 1"),
    Case("source: a login in a database's address",
         of_type("Postgres", CHANGES | {"url": "postgresql://a:b@pg/shop"}),
         None, "spec.postgres.url", "without credentials"),
    Case("source: a slot in capital letters",
         of_type("Postgres", CHANGES | {"slot": "Orders"}), None,
         "spec.postgres.slot", "lower-case letters, digits and underscores"),
    Case("source: a store for a folder",
         of_type("Files", {**BUCKET, "path": "/in"}), None, "spec.files",
         "s3 goes with a path in an object store"),
    Case("source: tokens without a secret",
         of_type("Http", {"url": "https://x.example", "oauth2": {"tokenUrl": "https://id.example"}}),
         None, "spec.http", "oauth2 needs credentialsSecretName"),
    Case("source: a path that ends in a dot", with_source(key="customer."), None,
         "spec.sources[0].key", "names with dots between them"),
    Case("source: a key within a message", with_source(key="customer.id")),
    Case("source: no messages at all", with_source(random={"messages": 0}), None,
         "spec.sources[0].random.messages", "at least 1"),
    Case("source: other topic", source(topicRef={"name": "other"}), source(), "spec.topicRef",
         "make a new IggySource"),
    Case("source: two of one name", topic(sources=[MADE, MADE]), None, "spec.sources[1]",
         "same as"),
    Case("source: dotted name", with_source(name="a.b"), None, "spec.sources[0].name", "dashes"),
    Case("source: beside a sink", topic(sources=[MADE], sinks=[LAKE])),
    Case("source: the name of a sink", topic(sources=[MADE | {"name": "lake"}], sinks=[LAKE]),
         None, "spec", "a source and a sink of a topic must have different names"),
    Case("source: sixteen of every type, with every field",
         topic(sources=[full(kind, f"{kind.lower()}-{index}")
                        for kind in SYSTEMS for index in range(4)])),
    Case("source: seventeen", topic(sources=[MADE | {"name": f"s{index}"} for index in range(17)]),
         None, "spec.sources", "at most 16"),
]  # fmt: skip
