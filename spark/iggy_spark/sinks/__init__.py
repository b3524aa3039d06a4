"""Where the sink job writes: one class per kind of target."""
