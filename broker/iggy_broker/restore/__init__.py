"""`iggy-broker restore`: a data directory from an archive."""
