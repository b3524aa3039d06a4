"""How a client makes sure that it talks to the right server, and to nobody else. No plain text."""

import ssl
from dataclasses import dataclass

from iggy_client.errors import LinkError


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption of one connection. Without anything given: as browsers do it."""

    ca_pem: str = ""
    """Certificates of the authorities to trust, as PEM. Empty: those of the system."""
    server_name: str = ""
    """What the server's certificate must be for. Empty: the host of the address."""

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or later, certificate and name checked. Raises LinkError for a bad PEM."""
        try:
            return ssl.create_default_context(cadata=self.ca_pem or None)
        except (ssl.SSLError, ValueError) as error:
            detail = "ca_pem holds no certificate: it must be PEM, with BEGIN CERTIFICATE"
            raise LinkError(detail) from error


def refused(address: str, error: OSError) -> LinkError:
    """What to say of a server with which no TLS session could be begun."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkError(
            f"the certificate of {address} is not accepted: {error.verify_message}: give the "
            "authority that signed it, and the name that it is for"
        )
    what = error.strerror or str(error) or "it closed the connection"
    return LinkError(
        f"cannot begin TLS with {address}: {what}: does the server speak TLS on this port?"
    )
