"""The protocol of servers up to 0.8, as far as its layouts differ from those of 0.11.

A request is `u32 length, u32 command code, payload` (the length counts code and payload), a reply
`u32 status, u32 payload length, payload`. One request at a time, and nothing that nobody asked for.
Identifiers, consumers, partitionings, strategies and most bodies are the same bytes as in 0.11.
"""
