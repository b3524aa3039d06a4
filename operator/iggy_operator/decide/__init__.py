"""What to do, as pure functions: desired and observed state in, actions and a verdict out.

The operator and the local mode share them; whoever calls carries the actions out.
"""
