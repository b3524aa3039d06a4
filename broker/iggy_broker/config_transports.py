"""Settings of how clients reach the broker: TLS, and the transports beside plain TCP."""

from __future__ import annotations

from typing import Annotated

from iggy_broker import config_values as values
from iggy_broker.config_data import flag
from iggy_broker.config_keys import Section, Setting
from iggy_broker.config_values import SECOND_US, Address

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


class WebSocketSettings(Section, frozen=True):
    """The binary protocol in messages of WebSocket."""

    enabled: Annotated[bool, flag("Listen for WebSocket clients.")] = True
    address: Annotated[
        Address,
        Setting(values.address, "Where to listen, host:port; port 0 lets the system pick."),
    ] = Address("127.0.0.1", 8092)
    max_message_size_bytes: Annotated[
        int,
        Setting(
            values.optional_size,
            "Largest message of WebSocket that a client may send; none: that of message_bus.",
            name="max_message_size",
            show=values.show_optional_size,
        ),
    ] = 0
    max_frame_size_bytes: Annotated[
        int,
        Setting(
            values.optional_size,
            "Largest part of such a message, if it comes in parts; none: that of the message.",
            name="max_frame_size",
            show=values.show_optional_size,
        ),
    ] = 0
    accept_unmasked_frames: Annotated[
        bool,
        flag("Take frames without a mask, which the standard forbids clients to send."),
    ] = False
    tls: Tls = Tls()

    def problem(self, frame_bytes_max: int) -> str:
        """What is wrong with the sizes together, and with the largest frame; empty if nothing."""
        message_bytes = self.max_message_size_bytes or frame_bytes_max
        if message_bytes > frame_bytes_max:
            return "websocket.max_message_size is above message_bus.max_message_size; lower it"
        if self.max_frame_size_bytes > message_bytes:
            return "websocket.max_frame_size is above websocket.max_message_size; lower it"
        return ""


class Certificate(Section, frozen=True):
    """The certificate of a listener that always encrypts."""

    self_signed: Annotated[bool, flag(SELF_SIGNED_DOC)] = True
    cert_file: Annotated[str, Setting(values.text, CERT_DOC)] = ""
    key_file: Annotated[str, Setting(values.text, KEY_DOC)] = ""

    @property
    def tls(self) -> Tls:
        """The same, as of other listeners."""
        return Tls(True, self.self_signed, self.cert_file, self.key_file)


class Quic(Section, frozen=True):
    """The binary protocol over QUIC: a stream for each request."""

    enabled: Annotated[
        bool,
        flag(
            "Listen for QUIC clients. Needs the extra `quic`; without it the default is told in "
            "the log and left out."
        ),
    ] = True
    address: Annotated[
        Address,
        Setting(values.address, "Where to listen (UDP), host:port; port 0 lets the system pick."),
    ] = Address("127.0.0.1", 8080)
    max_concurrent_bidi_streams: Annotated[
        int,
        Setting(values.whole(1, 1024), "Requests that a client may have under way at once."),
    ] = 1
    initial_mtu_bytes: Annotated[
        int,
        Setting(
            values.mtu,
            "Largest datagram that is sent; 1200 B passes everywhere.",
            name="initial_mtu",
            show=values.show_size,
        ),
    ] = 1200
    send_window_bytes: Annotated[
        int,
        Setting(
            values.positive_size,
            "Bytes of replies that a client need not have acknowledged; beyond, replies wait. They "
            "count in the memory of unread replies.",
            name="send_window",
            show=values.show_size,
        ),
    ] = 64 << 20
    receive_window_bytes: Annotated[
        int,
        Setting(
            values.window,
            "Bytes that a new connection may send before we have answered; it grows with what "
            "comes.",
            name="receive_window",
            show=values.show_size,
        ),
    ] = 64 << 20
    stream_receive_window_bytes: Annotated[
        int,
        Setting(
            values.window,
            "The same of one request; it starts with 256 KiB at most.",
            name="stream_receive_window",
            show=values.show_size,
        ),
    ] = 64 << 20
    keep_alive_interval_us: Annotated[
        int,
        Setting(
            values.duration,
            "How often idle clients are pinged; 0: never.",
            name="keep_alive_interval",
            show=values.show_duration,
        ),
    ] = 10 * SECOND_US
    max_idle_timeout_us: Annotated[
        int,
        Setting(
            values.duration,
            "A client of whom nothing is heard for so long is gone; 0: never.",
            name="max_idle_timeout",
            show=values.show_duration,
        ),
    ] = 30 * SECOND_US
    certificate: Certificate = Certificate()

    @property
    def problem(self) -> str:
        """What is wrong with settings together; empty if nothing is."""
        if self.stream_receive_window_bytes > self.receive_window_bytes:
            return "quic.stream_receive_window is above quic.receive_window; lower it"
        return ""
