"""Blocks of sinks as they stand in a resource, one for each type."""

from typing import Any

BUCKET: dict[str, Any] = {
    "path": "s3a://lake/orders",
    "s3": {"endpoint": "http://store:8333", "pathStyle": True},
}
DATABASE: dict[str, Any] = {
    "type": "Jdbc",
    "files": None,
    "jdbc": {
        "url": "jdbc:postgresql://pg:5432/shop",
        "table": "orders",
        "credentialsSecretName": "pg",
        "caSecretName": "pg-ca",
    },
}
_LOGIN = {"credentialsSecretName": "login"}
_VERIFIED = _LOGIN | {"caSecretName": "ca"}
TARGETS: dict[str, dict[str, Any]] = {
    "Iceberg": _LOGIN | {"table": "shop.orders", "catalog": {"type": "rest"}, "createTable": False,
                         "partitionBy": ["day"]},
    "Delta": BUCKET | {"mode": "Upsert", "keyColumns": ["id"], "partitionBy": ["day"]},
    "Jdbc": DATABASE["jdbc"] | {"createTable": False, "mode": "Upsert", "keyColumns": ["id"]},
    "Elasticsearch": _VERIFIED | {"urls": ["https://es:9200"], "index": "orders-{timestamp:%Y.%m}",
                                  "opType": "Create"},
    "Quickwit": _VERIFIED | {"url": "http://quickwit:7280", "index": "orders",
                             "indexConfig": "version: 0.9\nindex_id: orders\n"},
    "ClickHouse": _VERIFIED | {"url": "https://ch:8443", "database": "shop", "table": "orders"},
    "Mongo": _VERIFIED | {"url": "mongodb://mongo:27017", "database": "shop", "collection": "o",
                          "idFrom": "Field", "idField": "id"},
    "Http": _VERIFIED | {"url": "https://x.example/in?a=b@c", "method": "PUT", "body": "Individual",
                         "headers": {"x-team": "shop"}, "successCodes": [202], "metadata": True,
                         "timeout": "5s",
                         "oauth2": {"tokenUrl": "https://id.example/token", "scope": "write"}},
    "Iggy": {"stream": "shop", "topic": "copy", "partitioning": "Balanced"},
    "Console": {"rows": 0},
    "Custom": {"mainApplicationFile": "local:///opt/app/job.py", "arguments": ["--fast"]},
}  # fmt: skip
"""A block for each type of sink but Files, with every field that fits together."""
