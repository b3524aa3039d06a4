"""The command line, and local mode: a broker, sinks and sources as processes on this machine."""
