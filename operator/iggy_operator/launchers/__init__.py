"""Sinks and sources as Spark jobs in a cluster: one configuration, one pod, three envelopes. Pure.

`native` runs the driver in a StatefulSet or Job of ours, `kubeflow` and `apache` hand it to the
Spark operator of that project. `choice` picks one, `states` reads back what became of it.
"""
