"""The resources of IggyKube and what to do about them: schemas, checks, values, decisions, passes.

`documents` reads files, `validation` checks one document as the API server would, `resources`
turns documents into frozen values, `decide` says what to create, alter or report: so far nothing
talks to a broker or a cluster, and local mode uses it. `passes` and what is below it are the
operator's: they reach brokers by `broker_admin` and a cluster by the interface in `cluster`.
`program` is what runs in a pod: settings, Lease, watches, probes, metrics.
"""

from typing import Final

API_GROUP: Final = "iggykube.dev"
API_VERSION: Final = f"{API_GROUP}/v1alpha1"
VERSION: Final = "0.1.0"  # also the tag of the images
