"""Settings of how clients reach the broker: TLS, and the transports beside plain TCP."""

from __future__ import annotations

from typing import Annotated

from iggy_broker import config_values as values
from iggy_broker.config_data import flag
from iggy_broker.config_keys import Section, Setting

SELF_SIGNED_DOC = (
    "Without these files, make a certificate of our own and keep it in the data directory: for "
    "trying out. Files that exist win. Off: missing files stop the start."
)
CERT_DOC = (
    "PEM file of the certificate, then those of its authorities. A changed file counts for new "
    "connections within seconds; what cannot be used does not, and is logged."
)
KEY_DOC = "PEM file of the certificate's key, without a passphrase."


class Tls(Section, frozen=True):
    """TLS of one listener."""

    enabled: Annotated[
        bool,
        flag("TLS from the first byte, on the same port; nothing is served without it then."),
    ] = False
    self_signed: Annotated[bool, flag(SELF_SIGNED_DOC)] = True
    cert_file: Annotated[str, Setting(values.text, CERT_DOC)] = ""
    key_file: Annotated[str, Setting(values.text, KEY_DOC)] = ""
    ca_file: Annotated[
        str,
        Setting(
            values.text,
            "PEM file of authorities: clients must show a certificate that one of them signed. "
            "Empty: they need none; official clients have none.",
        ),
    ] = ""
