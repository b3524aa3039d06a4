"""The resources of IggyKube and what to do about them: schemas, checks, values, pure decisions.

`documents` reads files, `validation` checks one document as the API server would, `resources`
turns documents into frozen values, `decide` says what to create, alter or report. Nothing in here
talks to a broker or a cluster.
"""

from typing import Final

API_GROUP: Final = "iggykube.dev"
API_VERSION: Final = f"{API_GROUP}/v1alpha1"
