"""The control plane: small, in memory, journaled by shard 0 and copied to every shard."""
