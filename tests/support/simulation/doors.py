"""Connections that move between shards: as objects instead of as descriptors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from iggy_broker.net.handover import Doors
from iggy_broker.net.session import Session
from iggy_broker.surroundings import connection_of
from simulation.loop import SimulatedLoop
from simulation.network import SimulatedTransport, Socket

if TYPE_CHECKING:
    from iggy_broker.net.edge import Edge


class SimulatedDoors(Doors):
    """Connections move as objects instead of as descriptors."""

    def __init__(self, edge: Edge, doors: dict[int, SimulatedDoor]) -> None:
        super().__init__(edge, cast(Any, doors), lambda session: connection_of(edge, session))
        self._all = doors

    def open(self) -> None:
        for door in self._all.values():
            door.on_message = self._take

    def close(self) -> None:
        for door in self._all.values():
            door.on_message = None
        self._doors = {}

    def _pass(self, door: Any, moved: bytes, transport: asyncio.Transport) -> bool:
        assert isinstance(door, SimulatedDoor)
        if door.peer.loop is None or door.peer.loop.dead or door.chance.random() < 0.1:
            return False  # the other shard is slow to take them
        socket = cast(SimulatedTransport, transport).move()
        socket.loop = door.peer.loop
        door.peer.loop.call_later(
            door.chance.uniform(10e-6, 2e-3), door.peer.deliver, moved, socket
        )
        return True

    def _take(self, moved: bytes, socket: Socket) -> None:
        session: Session = self._session(moved)
        socket.attach(connection_of(self._edge, session))


class SimulatedDoor:
    """One end of the way between two shards."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        self.loop: SimulatedLoop | None = loop
        self.peer: SimulatedDoor = self
        self.chance = random.Random(seed)
        self.on_message: Callable[[bytes, Socket], None] | None = None

    def deliver(self, moved: bytes, socket: Socket) -> None:
        if self.on_message is None:
            socket.shut()
        else:
            self.on_message(moved, socket)
