"""The HTTP interface: JSON in, the commands of the binary protocol, JSON out."""
