"""Which object and pass the lines of a log are about: the program's format adds it to each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from iggy_operator.cluster import Ref

_ABOUT: ContextVar[Mapping[str, object] | None] = ContextVar("about", default=None)


@contextmanager
def about(ref: Ref, *, uid: str, generation: int, pass_id: str) -> Iterator[None]:
    """Lines in here belong to a pass over this object."""
    fields: dict[str, object] = {
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": uid,
        "generation": generation,
        "pass": pass_id,
    }
    token = _ABOUT.set(fields)
    try:
        yield
    finally:
        _ABOUT.reset(token)


def fields_of_pass() -> Mapping[str, object]:
    """Of the pass in which this line is written; empty outside of one."""
    return _ABOUT.get() or {}
