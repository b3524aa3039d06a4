"""The data plane: partitions as append-only files."""
