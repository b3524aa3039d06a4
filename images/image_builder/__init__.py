"""Builds the images and keeps them as archives. Needs nothing but Python and a builder.

The archives are what a cluster without a registry is fed with; their names inside are the ones
that pods use.
"""
