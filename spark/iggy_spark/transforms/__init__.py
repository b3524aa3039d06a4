"""Changes to each message between decoding and writing, in the order of a list."""
