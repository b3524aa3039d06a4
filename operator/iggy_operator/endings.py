"""Namespaces that are being deleted: what holds their objects is taken off while we still may.

Rights that are given in a namespace go with it, in no order, and so does an operator that lives in
it. Kubernetes begins five seconds after it was asked, and with the pods (namespace controller). So
we look more often than that, and let go of everything at once: later nobody could.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from iggy_operator.cache import KINDS, Entry
from iggy_operator.cluster import ClusterError, DeniedError, NotFoundError, Ref
from iggy_operator.kinds.common import World, set_finalizer
from iggy_operator.objects import has_finalizer, is_deleting

LOOK_S: Final = 2.0
"""Between two looks at a namespace."""
AT_ONCE: Final = 16
"""Objects that are let go at the same time."""
_LOG: Final = logging.getLogger(__name__)


async def look(world: World, namespaces: Iterable[str]) -> None:
    """Notice which of them end, and let go of what is in those. Raises ClusterError."""
    for namespace in namespaces:
        try:
            is_ending = is_deleting(await world.cluster.get(Ref("Namespace", "", namespace)))
        except NotFoundError:
            is_ending = False
        except DeniedError:
            continue  # our rights are gone, which is no news of the namespace
        if not is_ending:
            world.ending.discard(namespace)
            continue
        if namespace not in world.ending:
            _LOG.info("namespace %s is being deleted: its objects are let go", namespace)
        world.ending.add(namespace)
        await _let_go(world, namespace)


async def _let_go(world: World, namespace: str) -> None:
    held = [
        entry
        for kind in KINDS
        for entry in world.cache.of_kind(kind)
        if entry.ref.namespace == namespace and has_finalizer(entry.value)
    ]
    for first in range(0, len(held), AT_ONCE):
        chunk = held[first : first + AT_ONCE]
        await asyncio.gather(*(_release(world, entry) for entry in chunk))


async def _release(world: World, entry: Entry) -> None:
    """One that fails is tried again at the next look, and keeps no other from going."""
    try:
        await set_finalizer(world, entry, wanted=False)
    except NotFoundError:
        world.cache.remove(entry.ref)
    except ClusterError as error:
        _LOG.warning("%s is not let go yet: %s", entry.ref, error)
