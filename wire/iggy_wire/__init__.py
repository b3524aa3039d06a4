"""The Iggy protocol: bytes to values and back. No socket, file, clock or log line in here."""
