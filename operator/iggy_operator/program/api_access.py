"""How to reach the API server: from inside a pod by its token, else by a kubeconfig.

One `Access` serves our own requests and kopf's watches. Tokens of a pod are read again each minute,
and at once when the server refuses one.
"""

from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)


class AccessError(Exception):
    """There is no way to the API server; the message says what to do."""


class Access:
    """Address and credentials, kept fresh."""

    def __init__(self, folder: Path | None = None, kubeconfig: Path | None = None) -> None:
        """`folder` of a service account and `kubeconfig`, where not the usual ones."""
        self._folder = folder
        self._kubeconfig = kubeconfig
        self.configuration = Configuration()

    async def load(self) -> None:
        """Read everything, also again when the server refuses what we have. Raises AccessError."""
        self.configuration = await _configuration(self._folder, self._kubeconfig)

    async def authorization(self) -> str | None:
        """The header's value at this moment; None if certificates do it."""
        found = await self.configuration.auth_settings()
        bearer = found.get("BearerToken")
        return None if bearer is None else str(bearer["value"]).strip()


async def _configuration(folder: Path | None, kubeconfig: Path | None) -> Configuration:
    configuration = Configuration()
    token = SERVICE_TOKEN_FILENAME if folder is None else str(folder / "token")
    certificate = SERVICE_CERT_FILENAME if folder is None else str(folder / "ca.crt")
    try:
        InClusterConfigLoader(token, certificate).load_and_set(configuration)
    except ConfigException as outside:
        try:
            path = None if kubeconfig is None else str(kubeconfig)
            await load_kube_config(path, client_configuration=configuration)
        except (ConfigException, OSError) as error:
            raise AccessError(
                f"no way to an API server: not in a pod ({outside}), and no kubeconfig ({error}); "
                "set KUBECONFIG, or run in a pod with a service account"
            ) from error
    configuration.retries = None  # passes have their own back-off
    return configuration
