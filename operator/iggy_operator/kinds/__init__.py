"""One module for each kind: observe, decide (pure, in `decide`), act, report."""
