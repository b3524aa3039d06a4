"""Where segments are copied: names and manifests are `iggy_wire.archive`."""
