"""Resources with a sink into a database that is none of PostgreSQL."""

from typing import Any

from resource_case import Case
from resource_documents import sink, with_sink

AT = "spec.sinks[0].jdbc"
LETTERS = {"tolerance": "Data", "deadLetter": {"topic": "orders.dlq"}}


def into(url: str = "jdbc:mysql://h/d", *, fields: Any = None, **block: Any) -> dict[str, Any]:
    """A topic with such a sink."""
    jdbc = {"url": url, "table": "t", **block}
    return with_sink(type="Jdbc", files=None, jdbc=jdbc, **(fields or {}))


JDBC_CASES = [
    *[
        Case(f"sink: a database of kind {kind}", into(f"jdbc:{kind}://h/d"))
        for kind in ("mysql", "mariadb", "sqlserver", "oracle", "db2", "h2", "sqlite")
    ],
    Case("sink: another database with everything",
         sink(type="Jdbc", files=None, delivery="AtLeastOnce",
              jdbc={"url": "jdbc:hsqldb:hsql://h/d?a=b;c=d", "table": "t", "createTable": False,
                    "credentialsSecretName": "login", "driver": "org.hsqldb.jdbc.JDBCDriver",
                    "batchSize": 100_000})),
    Case("sink: a database without a known driver", into("jdbc:hsqldb:hsql://h/d"), None, AT,
         "name its class in driver"),
    Case("sink: a driver for PostgreSQL",
         into("jdbc:postgresql://h/d", driver="org.postgresql.Driver"), None, AT, "leave them out"),
    Case("sink: batches for PostgreSQL", into("jdbc:postgresql://h/d", batchSize=10), None, AT,
         "leave them out"),
    Case("sink: batches without rows", into(batchSize=0), None, f"{AT}.batchSize", "at least 1"),
    Case("sink: upsert into another database", into(mode="Upsert", keyColumns=["id"]), None, AT,
         "mode Upsert goes with jdbc:postgresql: only"),
    Case("sink: an authority for another database", into(caSecretName="ca"), None, AT,
         "caSecretName goes with jdbc:postgresql: only"),
    Case("sink: exactly once into another database",
         into(fields={"delivery": "ExactlyOnce"}), None, "spec.sinks[0]",
         "cannot deliver exactly once"),
    Case("sink: exactly once into PostgreSQL",
         into("jdbc:postgresql://h/d", fields={"delivery": "ExactlyOnce"})),
    Case("sink: dead letters of another database", into(fields={"errors": LETTERS}), None,
         "spec.sinks[0]", "errors.tolerance Data goes with jdbc:postgresql: only"),
    *[
        Case(f"sink: a login in {url}", into(url), None, f"{AT}.url", "a login stands in the URL")
        for url in ("jdbc:mysql://u:p@h/d", "jdbc:mysql://h/d?user=u&password=p",
                    "jdbc:sqlserver://h;Pwd=p", "jdbc:oracle:thin:u/p@h:1521:d",
                    "jdbc:mysql://h/d?trustCertificateKeyStorePassword=p",
                    "jdbc:postgresql://u:p@h/d")
    ],
    *[
        Case(f"sink: no login in {url}", into(url))
        for url in ("jdbc:oracle:thin:@//h:1521/d", "jdbc:mysql://h/d?passwordCharacterEncoding=x",
                    "jdbc:sqlserver://h;databaseName=d;encrypt=true")
    ],
]  # fmt: skip
