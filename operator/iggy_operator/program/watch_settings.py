"""What of kopf is used, and how it is set: it watches, and does nothing else. Pure.

Handlers for creations, updates, timers and daemons leave annotations and finalizers on every
object; `on.event` leaves nothing. Scanning would need rights on all namespaces and definitions.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import kopf

from iggy_operator import API_GROUP
from iggy_operator.program.api_client import CONNECT_S, REQUEST_S
from iggy_operator.program.api_kinds import API_KINDS, WATCHED_CHILDREN, ApiKind
from iggy_operator.program.children import SELECTOR

SERVER_S: Final = 300
"""A watch ends after so long, and is begun anew where it was."""
INACTIVITY_S: Final = 70.0
"""A watch that brings nothing for so long is dead: there is a bookmark each minute."""
CHUNK_OBJECTS: Final = 500
IDLE_S: Final = 0.2
"""A task for an object ends after so long without events."""
WORKERS_MAX: Final = 100
"""Objects whose events are taken at the same time."""
THREADS_MAX: Final = 2
BACKOFFS_S: Final = (1.0, 2.0, 4.0)
"""Of a request that fails; then the watches end, and we begin them anew."""
# Never written; but should kopf ever write, not under the names that others use.
_PREFIX: Final = API_GROUP
_FINALIZER: Final = f"{API_GROUP}/in-broker-kopf"


def kopf_settings(silence_s: float) -> kopf.OperatorSettings:
    """All that is not left at its default. `silence_s`: as in `Settings`."""
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None  # it would kill the whole process
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.finalizer = _FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
    settings.watching.server_timeout = min(SERVER_S, int(silence_s / 2))
    settings.watching.inactivity_timeout = min(INACTIVITY_S, silence_s / 4)
    settings.watching.connect_timeout = CONNECT_S
    settings.watching.chunk_size = CHUNK_OBJECTS
    for kind in WATCHED_CHILDREN:
        settings.watching.label_selectors[_selector(API_KINDS[kind])] = SELECTOR
    settings.queueing.idle_timeout = IDLE_S
    settings.queueing.worker_limit = WORKERS_MAX
    settings.networking.request_timeout = REQUEST_S
    settings.networking.connect_timeout = CONNECT_S
    settings.networking.error_backoffs = BACKOFFS_S
    settings.execution.executor = ThreadPoolExecutor(max_workers=THREADS_MAX)
    settings.execution.max_workers = THREADS_MAX
    return settings


def _selector(kind: ApiKind) -> tuple[str, str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural


def registry_for(kinds: Iterable[str], told: Any) -> kopf.OperatorRegistry:
    """A registry with one silent handler for each kind: `told(kind, type, object)`."""
    registry = kopf.OperatorRegistry()
    for kind in kinds:
        group, version, plural = _selector(API_KINDS[kind])

        async def handler(event: Mapping[str, Any], kind: str = kind, **_: Any) -> None:
            told(kind, event["type"], event["object"])

        kopf.on.event(group, version, plural, id=f"seen-{plural}", registry=registry)(handler)
    return registry
