"""A small Iggy client, blocking and async, on top of iggy_wire."""
