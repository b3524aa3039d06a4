"""Sessions of P12 clients whose connection is gone, until they are bound to another or are over.

Such a client goes on where it was (its groups, the replies that it missed) by showing the secret
that it chose at its login. It has as long as a silent member of a group has.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from iggy_broker.net.session import Session

SESSIONS_MAX: Final = 4096  # per shard; beyond, the one that waits for longest is over


class Detached:
    """The sessions of one shard that have no connection, by the client's own id."""

    __slots__ = ("_on_ended", "_sessions", "_steps_max")

    def __init__(self, *, steps_max: int, on_ended: Callable[[Session], None]) -> None:
        """None yet. `on_ended` gets each that was waited for in vain for more than `steps_max`."""
        self._sessions: dict[bytes, tuple[Session, int]] = {}  # and whole steps since, oldest first
        self._steps_max = steps_max
        self._on_ended = on_ended

    def keep(self, session: Session) -> None:
        """The connection of a session is gone."""
        self._sessions[session.client] = (session, 0)
        if len(self._sessions) > SESSIONS_MAX:
            self._end(next(iter(self._sessions)))

    def find(self, client: bytes) -> Session | None:
        """The session of a client, if it is here."""
        found = self._sessions.get(client)
        return None if found is None else found[0]

    def take(self, client: bytes) -> None:
        """The session of this client goes on elsewhere."""
        self._sessions.pop(client, None)

    def step(self) -> None:
        """One step of the heartbeat: end those that waited for too many."""
        for client, (session, steps) in list(self._sessions.items()):
            if steps >= self._steps_max:
                self._end(client)
            else:
                self._sessions[client] = (session, steps + 1)

    def end_where(self, is_over: Callable[[Session], bool]) -> None:
        """End those of users that are gone."""
        for client, (session, _) in list(self._sessions.items()):
            if is_over(session):
                self._end(client)

    def _end(self, client: bytes) -> None:
        session, _ = self._sessions.pop(client)
        self._on_ended(session)


def is_bound_by(session: Session, number: int, secret: bytes) -> bool:
    """Whether who knows this may go on with a session. `number` 0: it was never learned."""
    known = bool(session.bind_secret) and hmac.compare_digest(session.bind_secret, secret)
    return known and number in (0, session.number)
