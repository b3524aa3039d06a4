"""What the sends and polls of one connection name, remembered.

Clients repeat the same target in every request, so bytes are compared and not decoded. All that is
remembered was permitted and resolved with one state of the metadata and one user; when either is
another one, it is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iggy_broker.errors import Reject
from iggy_broker.metadata import access
from iggy_broker.net.handlers import messages
from iggy_broker.net.targets import (
    NOT_NAMED,
    TARGETS_MAX,
    ReadTarget,
    Rotation,
    Target,
    poll_target,
    send_target,
)
from iggy_wire.codes import Command
from iggy_wire.errors import CutShort, WireError
from iggy_wire.header import HEADER_BYTES
from iggy_wire.primitives import Identifier
from iggy_wire.requests import PollMessages, SendMessages

if TYPE_CHECKING:
    from iggy_broker.metadata.model import State
    from iggy_broker.net.context import Services
    from iggy_broker.net.session import Session


class Resolver:
    """From the bytes of a frame to its target, for one connection."""

    __slots__ = ("_reads", "_sends", "_state", "services", "session")

    def __init__(self, services: Services, session: Session) -> None:
        """Nothing is known yet."""
        self.services = services
        self.session = session
        self._state: State | None = None  # that what is remembered belongs to
        self._sends: dict[bytes, Target | Rotation] = {}
        self._reads: dict[bytes, ReadTarget] = {}

    def forget(self) -> None:
        """Resolve and permit every target anew: the metadata or the user is another one."""
        self._state = self.services.replica.state
        self._sends.clear()
        self._reads.clear()

    def send_target(self, frame: memoryview, start: int) -> Target:
        """Where the batch at `start` goes. Reject if that is nowhere, or not permitted."""
        if self._state is not self.services.replica.state:
            self.forget()
        key = frame[HEADER_BYTES + 4 : start - 4].tobytes()
        target = self._sends.get(key)
        if target is None:
            target = self._resolve_send(frame, key)
        return target if isinstance(target, Target) else target.next()

    def read_target(self, frame: memoryview) -> tuple[ReadTarget, messages.PollTail]:
        """What a poll frame wants to read, and how. Reject as above.

        Iggy protocol 0.11: the answer to an unknown kind or strategy is an empty poll. A body that
        was cut off is refused: it would look like the end of the messages.
        """
        if self._state is not self.services.replica.state:
            self.forget()
        key = frame[HEADER_BYTES : -messages.POLL_TAIL_BYTES].tobytes()
        read = self._reads.get(key)
        if read is not None:
            tail = messages.poll_tail(frame)
            return (NOT_NAMED, messages.NOTHING) if tail is None else (read, tail)
        body = bytes(frame[HEADER_BYTES:])
        try:
            request = PollMessages.decode(body)
        except CutShort as cut:
            raise Reject(cut.code, cut.detail) from None
        except WireError:
            return NOT_NAMED, messages.NOTHING
        self._check_access(Command.POLL_MESSAGES, request.stream, request.topic)
        read = poll_target(self.services, request, self.session.number)
        if request.encode() == body:  # else bytes follow, and the tail is not where we look
            if len(self._reads) >= TARGETS_MAX:
                self._reads.clear()
            self._reads[key] = read
        return read, (request.strategy, request.count, request.auto_commit)

    def _resolve_send(self, frame: memoryview, key: bytes) -> Target | Rotation:
        try:
            head = SendMessages.decode(frame[HEADER_BYTES:])
        except WireError as malformed:
            raise Reject(malformed.code, malformed.detail) from None
        self._check_access(Command.SEND_MESSAGES, head.stream, head.topic)
        target = send_target(self.services, head.stream, head.topic, head.partitioning)
        if len(self._sends) >= TARGETS_MAX:
            self._sends.clear()
        self._sends[key] = target
        return target

    def _check_access(self, command: Command, stream: Identifier, topic: Identifier) -> None:
        user_id = self.session.user_id
        assert user_id is not None, "data is served to logged-in sessions only"
        target = access.Target(stream.value, topic.value)
        access.authorize(self.services.replica.state, user_id, command, target)
