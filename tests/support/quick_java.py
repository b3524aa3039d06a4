"""A Spark that must start fast more than it must run fast: few rows pass through it."""

from iggy_spark.session import JAVA_OPTIONS

QUICK = {"JDK_JAVA_OPTIONS": JAVA_OPTIONS}
"""Environment variables of a program that starts Java: they hold for all of its Javas."""
