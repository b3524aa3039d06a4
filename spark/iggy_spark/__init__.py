"""Spark reads Iggy topics: the data source and the sink job."""
