"""The broker's process: start it, wait until it serves, stop it."""

import http.client
import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from iggykube.errors import BrokerDied, LocalError, Stopped
from iggykube.local.folders import Folders, Ports
from iggykube.local.processes import Child

READY_PAUSE_S: Final = 0.05
READY_S_MAX: Final = 600.0
"""Recovery of large logs takes a while; a broker that hangs must not be waited for without end."""
_PROBE_S_MAX: Final = 2.0
_HTTP_OK: Final = 200


def clean_environment() -> dict[str, str]:
    """Ours without `IGGY_*`: settings meant for other programs must not reach the broker."""
    return {name: value for name, value in os.environ.items() if not name.startswith("IGGY_")}


class BrokerProcess:
    """One `iggy-broker` on this machine."""

    def __init__(self, folders: Folders, ports: Ports, environment: Mapping[str, str]) -> None:
        """Start it; `environment` holds its settings."""
        self._log = folders.logs / "broker.log"
        self._ports = ports
        # It runs in its data folder: a server.toml in the user's folder is none of its business.
        self._child = Child(
            [sys.executable, "-m", "iggy_broker"],
            environment=clean_environment() | dict(environment),
            folder=folders.broker,
            log=self._log,
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def check(self) -> None:
        """Raises BrokerDied with the reason if it has ended. Keeps its log small."""
        self._child.limit_log()
        if (code := self._child.exit_code) is not None:
            reason = self._child.reason(code)
            raise BrokerDied(f"the broker ended: {reason} (log: {self._log})")

    def wait_ready(self, should_stop: Callable[[], bool]) -> None:
        """Return when every shard serves. Raises BrokerDied, LocalError or Stopped."""
        tries = int(READY_S_MAX / READY_PAUSE_S)
        for _ in range(tries):
            self.check()
            if should_stop():
                raise Stopped("stopped while the broker was starting")
            if self._is_ready():
                return
            self._child.wait(READY_PAUSE_S)
        message = f"the broker is not ready after {READY_S_MAX:.0f} s (log: {self._log})"
        raise LocalError(message)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(
            self._ports.monitoring_address, timeout=_PROBE_S_MAX
        )
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == _HTTP_OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def terminate(self) -> None:
        """Ask it to write everything to disk and end."""
        self._child.terminate()

    def kill(self) -> None:
        """End it at once; it loses nothing that it acknowledged."""
        self._child.kill()

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None while it still runs."""
        return self._child.wait(timeout_s)
