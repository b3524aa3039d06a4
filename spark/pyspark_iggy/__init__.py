"""Lets PySpark find format("iggy") without registration."""
