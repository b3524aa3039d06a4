"""Lets PySpark find format("iggy") without registration.

Spark imports every top-level package named `pyspark_…` and takes `DefaultSource` from it.
"""

from iggy_spark.source import IggyDataSource as DefaultSource

__all__ = ["DefaultSource"]
