"""The operator's resources and decisions."""
