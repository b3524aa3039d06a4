"""Measures the broker against a bare server and the bare disk, in one run, in alternating pairs."""
