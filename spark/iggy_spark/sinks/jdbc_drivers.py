"""Databases that Spark's JDBC writer reaches: their addresses and the classes of their drivers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from iggy_spark import blocks
from iggy_spark.errors import OptionError

POSTGRES: Final = "jdbc:postgresql:"
_DRIVERS: Final = {
    # Kind in the URL: class of the driver, and where Maven has it. Spark 4.3 brings none of them.
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.3.0"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.3"),
    "sqlserver": (
        "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "com.microsoft.sqlserver:mssql-jdbc:12.10.0.jre11",
    ),
    "oracle": ("oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11:23.7.0.25.01"),
    "db2": ("com.ibm.db2.jcc.DB2Driver", "com.ibm.db2:jcc:12.1.0.0"),
    "h2": ("org.h2.Driver", "com.h2database:h2:2.3.232"),
    "sqlite": ("org.sqlite.JDBC", "org.xerial:sqlite-jdbc:3.49.1.0"),
}
KNOWN: Final = tuple(_DRIVERS)
_KIND = re.compile(r"jdbc:([a-z0-9]+):")
# A rule of the resource IggySink has the same.
_LOGIN = re.compile(r"//[^/?#;]*@|:(thin|oci):[^@]+@|(?i:password|pwd)[0-9]?=")
_PARAMETERS = re.compile(r"[?;].*", re.DOTALL)
_MARIADB: Final = "jdbc:mariadb:"


@dataclass(frozen=True, slots=True)
class Address:
    """A database, its driver, and how people and Spark call it."""

    url: str
    driver: str  # a class of Java
    package: str | None  # where Maven has it, if that is known

    @property
    def place(self) -> str:
        """For messages: without parameters, which may hold anything."""
        return _PARAMETERS.sub("", self.url)

    @property
    def spark_url(self) -> str:
        """For Spark, which knows databases by their URLs, and MariaDB by that of MySQL alone: else
        it would quote names as MariaDB does not take them.
        """
        if not self.url.startswith(_MARIADB):
            return self.url
        more = "&" if "?" in self.url else "?"
        rest = self.url.removeprefix(_MARIADB)
        return f"jdbc:mysql:{rest}{more}permitMysqlScheme=true"

    @property
    def no_driver(self) -> str:
        """What to say where its class is missing."""
        fix = f"add {self.package} there" if self.package else "add the driver's coordinates there"
        return (
            f"spark.packages: Spark has no class {self.driver}, which {self.place} needs: {fix}, "
            "or put its jar into the image"
        )


def parse(settings: blocks.Jdbc) -> Address:
    """The database of a block, which is none of PostgreSQL.

    Raises:
        OptionError: a login stands in the URL, or no driver is known.
    """
    found = _KIND.match(settings.url)
    assert found is not None, "the block's pattern"
    if _LOGIN.search(settings.url):
        raise OptionError("jdbc.url: a login stands in the URL; give it with credentialsPath")
    driver, package = _DRIVERS.get(found[1], (None, None))
    if settings.driver not in (None, driver):
        driver, package = settings.driver, None
    if driver is None:
        raise OptionError(
            f"jdbc.driver: name the class of the JDBC driver for {found[0]} only those of "
            f"{', '.join(KNOWN)} are known"
        )
    return Address(settings.url, driver, package)
