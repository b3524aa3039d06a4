"""What should exist in the cluster for a resource: manifests as plain values, computed purely.

The same resource always gives the same manifests. Nothing here reads or writes anything.
"""
