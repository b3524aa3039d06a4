"""Blocks of sources as they stand in a resource, one for each type."""

from typing import Any

from sink_blocks import BUCKET

CHANGES: dict[str, Any] = {
    "url": "postgresql://pg:5432/shop",
    "tables": ["public.orders", "public.items"],
    "credentialsSecretName": "pg",
    "caSecretName": "pg-ca",
    "slot": "iggy_orders",
    "publication": "orders",
    "snapshot": True,
}
POLLING: dict[str, Any] = {
    "url": "postgres://pg:5432/shop",
    "mode": "Polling",
    "tables": ["public.orders"],
    "cursorColumn": "changed_at",
    "keyColumns": ["id"],
    "settle": "10s",
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "Postgres": CHANGES,
    "Files": {
        **BUCKET,
        "s3": {**BUCKET["s3"], "credentialsSecretName": "keys"},
        "format": "Csv",
        "settle": "1m",
    },
    "Http": {
        "url": "https://x.example/orders",
        "headers": {"x-team": "shop"},
        "credentialsSecretName": "login",
        "caSecretName": "ca",
        "timeout": "5s",
        "oauth2": {"tokenUrl": "https://id.example/token", "scope": "read"},
        "items": "data.orders",
        "cursor": {"parameter": "since", "path": "changed"},
        "idPath": "id",
        "next": "Link",
    },
    "Random": {"rate": 50, "payloadBytes": 1000, "keys": 7, "seed": 3, "messages": 100},
}
"""A block for each type, with every field that fits together."""
