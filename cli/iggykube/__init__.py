"""The command line, and local mode: a broker and its sinks as processes on this machine."""
