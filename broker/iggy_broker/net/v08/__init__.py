"""Clients of servers up to 0.8, on the port of TCP: each request becomes one of 0.11, or some."""
