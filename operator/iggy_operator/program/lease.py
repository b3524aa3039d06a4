"""One replica works, the others wait: a Lease, as Kubernetes' own components use it.

Who holds it renews it each third of its time. A holder that could not for two thirds gives up: it
must have stopped before another one may begin. Clocks of different machines are never compared: a
waiting replica measures for how long it has seen no change.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.clock import Clock
from iggy_operator.cluster import ClusterError, ConflictError, NotFoundError, Object, Ref
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_kinds import API_KINDS, path_of
from iggy_operator.units import time_text

RENEWALS: Final = 3
"""Of one duration."""
ATTEMPTS: Final = 5
"""To renew, in the time between two renewals."""
_LOG: Final = logging.getLogger(__name__)


def identity_of(pod_name: str) -> str:
    """Whom a Lease names: one process. Two of them may have one name, as after a restart."""
    return f"{pod_name}_{secrets.token_hex(4)}"


class LeaseLostError(Exception):
    """Somebody else may be working: stop at once."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Lease as somebody else has left it, and since when it has been like that."""

    version: str
    since_s: float


class Lease:
    """One Lease, seen by one replica."""

    def __init__(
        self, client: ApiClient, clock: Clock, ref: Ref, *, identity: str, duration_s: int
    ) -> None:
        """`identity`: of this process alone, see `identity_of`."""
        self._client = client
        self._clock = clock
        self._ref = ref
        self._identity = identity
        self._duration_s = duration_s
        self._seen: _Seen | None = None
        self._renewed_s = clock.monotonic_s()
        self.holder = ""
        """Who was last seen with it."""

    async def acquire(self) -> None:
        """Wait until it is ours."""
        while True:
            begun_s = self._clock.monotonic_s()
            try:
                if await self._try():
                    self._renewed_s = begun_s
                    return
            except ConflictError:
                pass  # somebody was faster
            except ClusterError as error:
                _LOG.warning("%s: %s", self._ref, error)
            await asyncio.sleep(self._pause_s)

    async def hold(self) -> None:
        """Renew it for ever. Raises LeaseLostError."""
        while True:
            await asyncio.sleep(self._pause_s)
            self._renewed_s = await self._renewed()

    async def _renewed(self) -> float:
        """When the renewal began. Raises LeaseLostError in time for nobody else to have begun."""
        left_s = self._renewed_s + (RENEWALS - 1) * self._pause_s - self._clock.monotonic_s()
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                while True:
                    begun_s = self._clock.monotonic_s()
                    try:
                        is_ours = await self._try()
                    except ClusterError as error:
                        _LOG.warning("%s is not renewed yet: %s", self._ref, error)
                        await asyncio.sleep(self._pause_s / ATTEMPTS)
                    else:
                        break
        except TimeoutError:
            raise LeaseLostError(f"{self._ref} could not be renewed in time") from None
        if not is_ours:
            raise LeaseLostError(f"{self._ref} is held by {self.holder or 'nobody'}")
        return begun_s

    async def release(self) -> None:
        """Let the next one have it at once, if it is ours. Raises ClusterError."""
        value = await self._client.get(path_of(self._ref))
        if value["spec"].get("holderIdentity") == self._identity:
            spec = {**value["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._replace(value, spec)

    @property
    def _pause_s(self) -> float:
        return self._duration_s / RENEWALS

    async def _try(self) -> bool:
        """Take or renew it; whether it is ours now. Raises ClusterError."""
        now = self._now()
        try:
            value = await self._client.get(path_of(self._ref))
        except NotFoundError:
            await self._make(now)
            return True
        spec = value["spec"]
        self.holder = spec.get("holderIdentity") or ""
        if self.holder == self._identity:
            await self._replace(value, {**spec, **self._times(now)})
            return True
        if self.holder and not self._is_over(value):
            return False
        transitions = int(spec.get("leaseTransitions") or 0) + 1
        taken = {"holderIdentity": self._identity, "acquireTime": now}
        await self._replace(
            value, {**spec, **taken, **self._times(now), "leaseTransitions": transitions}
        )
        return True

    def _is_over(self, value: Object) -> bool:
        """Whether its holder has done nothing for the time that it asked for."""
        version, now_s = value["metadata"]["resourceVersion"], self._clock.monotonic_s()
        if self._seen is None or self._seen.version != version:
            self._seen = _Seen(version, now_s)
        duration_s = value["spec"].get("leaseDurationSeconds") or self._duration_s
        return now_s - self._seen.since_s >= float(duration_s)

    def _now(self) -> str:
        now_s = self._clock.now_s()
        return f"{time_text(now_s).removesuffix('Z')}.{int(now_s % 1 * 1e6):06d}Z"

    def _times(self, now: str) -> dict[str, Any]:
        return {"renewTime": now, "leaseDurationSeconds": self._duration_s}

    async def _make(self, now: str) -> None:
        kind = API_KINDS[self._ref.kind]
        spec = {"holderIdentity": self._identity, "acquireTime": now, "leaseTransitions": 0}
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
            "spec": {**spec, **self._times(now)},
        }
        await self._client.request("POST", kind.path(namespace=self._ref.namespace), body=body)

    async def _replace(self, value: Object, spec: Mapping[str, Any]) -> None:
        """Only if nobody has touched it since: by its resourceVersion."""
        await self._client.request("PUT", path_of(self._ref), body={**value, "spec": spec})
