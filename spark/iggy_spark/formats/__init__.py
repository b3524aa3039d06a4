"""Payload formats that give objects: bytes → document, and the columns of their schemas."""
