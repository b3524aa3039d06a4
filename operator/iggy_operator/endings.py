"""Namespaces that are being deleted: what holds their objects is taken off while we still may.

Rights that are given in a namespace go with it, in no order, and so does an operator that lives in
it. Kubernetes begins five seconds after it was asked, and with the pods (namespace controller). So
every replica looks more often than that, whether or not it has the Lease, and lets go of everything
at once: later nobody could. Nothing is deleted in a broker, so two who do it do no harm.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from iggy_operator.cluster import Cluster, ClusterError, DeniedError, NotFoundError, Object, Ref
from iggy_operator.objects import FINALIZER, has_finalizer, is_deleting, ref_of, uid_of

HELD: Final = ("IggyStream", "IggyTopic", "IggyUser")
"""Kinds whose objects may have our finalizer."""
LOOK_S: Final = 2.0
"""Between two looks at all namespaces."""
AT_ONCE: Final = 16
"""Objects that are let go at the same time."""
_LOG: Final = logging.getLogger(__name__)


class Endings:
    """Looks at some namespaces. `ending` has those that are being deleted."""

    def __init__(self, cluster: Cluster, namespaces: Sequence[str]) -> None:
        """`namespaces`: where our rights, or we ourselves, end with the namespace."""
        self.ending: set[str] = set()
        self._cluster = cluster
        self._namespaces = tuple(namespaces)

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await self.look_at_all()
            await asyncio.sleep(LOOK_S)

    async def look_at_all(self) -> None:
        """One look at each."""
        for namespace in self._namespaces:
            try:
                await self.look(namespace)
            except ClusterError as error:
                _LOG.debug("namespace %s: %s", namespace, error)  # others say so louder

    async def look(self, namespace: str) -> None:
        """Notice whether it ends, and let go of what is in it then. Raises ClusterError."""
        try:
            is_ending = is_deleting(await self._cluster.get(Ref("Namespace", "", namespace)))
        except NotFoundError:
            is_ending = False
        except DeniedError:
            return  # our rights are gone, which is no news of the namespace
        if not is_ending:
            self.ending.discard(namespace)
            return
        if namespace not in self.ending:
            _LOG.info("namespace %s is being deleted: its objects are let go", namespace)
            self.ending.add(namespace)
        for kind in HELD:
            found = await self._cluster.list(kind, namespace=namespace)
            held = [value for value in found if has_finalizer(value)]
            for first in range(0, len(held), AT_ONCE):
                await asyncio.gather(*map(self._let_go, held[first : first + AT_ONCE]))

    async def _let_go(self, value: Object) -> None:
        """One that fails is tried again at the next look, and keeps no other from going."""
        try:
            await self._cluster.remove_finalizer(
                ref_of(value), uid=uid_of(value), finalizer=FINALIZER
            )
        except ClusterError as error:
            if not isinstance(error, NotFoundError):
                _LOG.warning("%s is not let go yet: %s", ref_of(value), error)
