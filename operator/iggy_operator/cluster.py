"""What the operator asks of Kubernetes, and how that can fail. Interface only.

Objects are mappings as in the API. Every call is idempotent, or guarded by the object's uid, so
that a pass that was killed in the middle can simply be run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from iggy_operator.resources import Key

FIELD_MANAGER: Final = "iggy-operator"

Object: TypeAlias = Mapping[str, Any]
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One object. Objects without a namespace have an empty one.

    `kind` goes with its group where two groups have it: `SparkApplication.spark.apache.org`.
    """

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """Without the kind."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        """`IggyTopic shop/orders`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an object, for people."""

    about: Object
    is_warning: bool
    reason: str
    message: str


class ClusterError(Exception):
    """The API server refused or failed. `status` is the HTTP status, 0 without an answer."""

    status = 0


class DeniedError(ClusterError):
    """We lack the right."""

    status = 403


class NotFoundError(ClusterError):
    """There is no such object, or no such kind."""

    status = 404


class ConflictError(ClusterError):
    """It exists already, or is not the one that was meant (another uid)."""

    status = 409


class GoneError(ClusterError):
    """The place in a list or watch is too old: begin again."""

    status = 410


class InvalidError(ClusterError):
    """The object does not fit its schema: a bug of ours, or definitions that are too old."""

    status = 422


class ThrottledError(ClusterError):
    """Too many requests."""

    status = 429

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        """`retry_after_s`: what the server asked for."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerFailedError(ClusterError):
    """The server is in trouble."""

    status = 500


class UnreachableError(ClusterError):
    """There was no answer: whether the request was carried out is not known."""


_BY_STATUS: Final[Mapping[int, type[ClusterError]]] = {
    kind.status: kind
    for kind in (DeniedError, NotFoundError, ConflictError, GoneError, InvalidError)
}


def error_of(status: int, message: str, *, retry_after_s: float = 1.0) -> ClusterError:
    """The error for an HTTP status. Raises nothing itself."""
    if status == ThrottledError.status:
        return ThrottledError(message, retry_after_s=retry_after_s)
    if status >= ServerFailedError.status:
        return ServerFailedError(message)
    return _BY_STATUS.get(status, ClusterError)(message)


class Cluster(Protocol):
    """The Kubernetes API as far as the operator uses it. Every method may raise ClusterError."""

    async def get(self, ref: Ref) -> Object:
        """One object. Raises NotFoundError."""
        ...

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        """All objects of a kind, or those of a namespace or with these labels."""
        ...

    async def create(self, value: Object) -> Object:
        """A new object. Its fields are ours as if applied: a later `apply` without one removes it.

        Raises ConflictError if there is one of that name.
        """
        ...

    async def apply(self, value: Object) -> Object:
        """Server-side apply, forced. `metadata.uid` must be that of the object: ConflictError."""
        ...

    async def apply_status(self, value: Object) -> Object:
        """The same for the status alone. A status that changes nothing writes nothing."""
        ...

    async def delete(self, ref: Ref, *, uid: str, propagation: Propagation = "Background") -> None:
        """Delete this very object. Raises NotFoundError, ConflictError for another uid."""
        ...

    async def add_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        """The object with the finalizer; the rest of it stays as it is."""
        ...

    async def remove_finalizer(self, ref: Ref, *, uid: str, finalizer: str) -> Object:
        """The object without the finalizer, whoever put it there."""
        ...

    async def record(self, event: Event) -> None:
        """Show an event on its object."""
        ...
