"""The broker: an edge (net) over a control plane (metadata) and a data plane (storage)."""
