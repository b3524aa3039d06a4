"""One function per command, grouped by what they act on."""
