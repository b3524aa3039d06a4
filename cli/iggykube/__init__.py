"""The iggykube command line and local mode."""
