"""Local mode: what a cluster does with pods and claims, done with processes and folders.

resources = load_resources(Path(".iggykube"), [Path("topic.yaml")])
with LocalInstance(Path(".iggykube"), resources) as instance:
    instance.start()
    while instance.step(timeout_s=0.25).lag:
        ...
"""

from iggykube.local.folders import PORT_MAX, Folders, Ports
from iggykube.local.instance import LocalInstance, load_resources
from iggykube.local.snapshot import SinkRow, Snapshot, SourceRow, StreamRow, TopicRow

__all__ = [
    "PORT_MAX",
    "Folders",
    "LocalInstance",
    "Ports",
    "SinkRow",
    "Snapshot",
    "SourceRow",
    "StreamRow",
    "TopicRow",
    "load_resources",
]
