"""Commands on what a broker has: streams, topics, groups, offsets, users, tokens, the broker."""
