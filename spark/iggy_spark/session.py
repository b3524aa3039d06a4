"""The job's Spark: one of its own that says nothing on the terminal, since its logs go to files, or
the one that `spark-submit` has begun, with its master and its executors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from iggy_spark.errors import SparkNotStarted

LOG_BYTES_MAX = 10 << 20  # of Spark's log; one older file is kept

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}}{{UTC}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {size_bytes}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""

# Hardly a row passes through Java in a sink job: it must start fast more than it must run fast. The
# quick compiler alone nearly halves the CPU time of a start (measured: 16 s → 9 s). Where rows do
# pass, into databases by JDBC, their times are written in Java's own zone: it must be everybody's.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC"

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit gives the program: how to reach its JVM."""
_OF_ONE_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled")

# Can be overruled by the sink's spark.conf.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",  # also spares a warning about the machine's name
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # streaming would switch it off, with a warning
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.cleaner.periodicGC.interval": "15min",
}


@contextmanager
def running(
    name: str, *, cores: int, memory: str, logs: Path, conf: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Spark for the length of a block, as `start` makes it."""
    spark = start(name, cores=cores, memory=memory, logs=logs, conf=conf)
    try:
        yield spark
    finally:
        spark.stop()


def start(
    name: str, *, cores: int, memory: str, logs: Path, conf: Mapping[str, str]
) -> SparkSession:
    """Start Spark in this process's own JVM, on `cores` cores and a heap of `memory`. Under
    `spark-submit` its JVM is there already, and where and how large Spark is was said to it.

    `logs` is an existing folder; what Java prints goes there too.

    Raises:
        SparkNotStarted: no Java, or one that is too old.
    """
    configuration = logs / "log4j2.properties"
    configuration.write_text(_LOG4J.format(folder=logs, size_bytes=LOG_BYTES_MAX), "utf-8")
    # Workers must run this very Python, or they do not find our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if SUBMITTED in os.environ:
        return _submitted(name, logs=logs, conf=conf)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    java = f"-Dlog4j2.configurationFile=file:{configuration} {JAVA_OPTIONS}"
    settings = {
        **DEFAULTS,
        "spark.driver.memory": memory,
        "spark.sql.warehouse.dir": str(logs / "warehouse"),
        **conf,
        "spark.driver.extraJavaOptions": f"{java} {conf.get('spark.driver.extraJavaOptions', '')}",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _output_to(logs / "java.log"):
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkNotStarted(
            "Spark did not start: is Java 17 or newer installed, and JAVA_HOME right? What it said "
            f"is in {logs / 'java.log'} ({error})"
        ) from error


def _submitted(name: str, *, logs: Path, conf: Mapping[str, str]) -> SparkSession:
    """The Spark of `spark-submit`: what it was told wins over what is ours."""
    builder = SparkSession.builder
    told = SparkConf()
    settings = {
        "spark.app.name": name,
        **{key: value for key, value in DEFAULTS.items() if key not in _OF_ONE_MACHINE},
        "spark.sql.warehouse.dir": str(logs / "warehouse"),
        **conf,
    }
    for key, value in settings.items():
        if not told.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """What children started inside print goes to a file: Java's warnings help nobody."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)
        os.close(target)
