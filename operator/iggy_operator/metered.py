"""A way to connect to one broker that tells a meter of every request."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from iggy_client import ClientError, Tls
from iggy_client.session import Call
from iggy_operator.broker_admin import Connect, Connection
from iggy_operator.clock import Clock
from iggy_operator.cluster import Ref
from iggy_operator.meter import Meter
from iggy_wire.errors import WireError

T = TypeVar("T")
_LOGIN = "login"


class Metered:
    """As the `Connect` that it was made of."""

    def __init__(self, connect: Connect, broker: Ref, clock: Clock, meter: Meter) -> None:
        """For this broker."""
        self._connect = connect
        self._broker = broker
        self._clock = clock
        self._meter = meter

    async def __call__(
        self, address: str, username: str, password: str, *, tls: Tls | None
    ) -> Connection:
        """A connection that is logged in, and metered."""
        with self.metered(_LOGIN):
            connection = await self._connect(address, username, password, tls=tls)
        return _Connection(connection, self)

    @contextmanager
    def metered(self, command: str) -> Iterator[None]:
        """Tells of the one request that is made in the block."""
        begun_s = self._clock.monotonic_s()
        result = "lost"
        try:
            yield
            result = "ok"
        except (ClientError, WireError):
            result = "refused"
            raise
        finally:
            self._meter.asked(self._broker, command, result, self._clock.monotonic_s() - begun_s)


class _Connection:
    def __init__(self, connection: Connection, metered: Metered) -> None:
        self._connection = connection
        self._metered = metered

    async def call(self, call: Call[T]) -> T:
        with self._metered.metered(call.request.command.name.lower()):
            return await self._connection.call(call)

    async def close(self) -> None:
        await self._connection.close()
