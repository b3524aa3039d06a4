"""The operator as a running program: settings, Lease, watches, probes, metrics."""
