"""Settings of the HTTP interface. Names and defaults as in the original (Iggy 0.9 HTTP API)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Final

from iggy_broker import config_values as values
from iggy_broker.config_data import flag
from iggy_broker.config_issuers import TrustedIssuer, show_issuers, trusted_issuers
from iggy_broker.config_keys import Section, Setting
from iggy_broker.config_transports import Tls
from iggy_broker.config_values import SECOND_US, Address, Secret

LIST_MAX: Final = 64  # items of one list
BODY_BYTES_MAX: Final = 64 << 20  # what `http.max_request_size` may be at most

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERBS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE")


def words(value: object) -> tuple[str, ...]:
    """A list of texts, or one text with commas; blanks around and empty ones are dropped."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise ValueError('write a list like ["a", "b"], or a,b in a variable')
    found = tuple(text for one in value if (text := one.strip()))
    if len(found) > LIST_MAX:
        raise ValueError(f"write at most {LIST_MAX} items")
    return found


def show_words(value: tuple[str, ...]) -> str:
    """Text that `words` reads back."""
    return ",".join(value)


def verbs(value: object) -> tuple[str, ...]:
    """HTTP methods, in any case."""
    found = tuple(one.upper() for one in words(value))
    if any(one not in _VERBS for one in found):
        raise ValueError(f"write some of {', '.join(_VERBS)}")
    return found


def header_names(value: object) -> tuple[str, ...]:
    """Names of headers, or `*`."""
    found = tuple(one.lower() for one in words(value))
    if not all(_TOKEN.fullmatch(one) for one in found):
        raise ValueError("write names of headers, like content-type")
    return found


def origins(value: object) -> tuple[str, ...]:
    """`*` first (then the rest does not count), or a list of exact origins."""
    found = words(value)
    if found[:1] == ("*",):
        return ("*",)
    if "*" in found:
        raise ValueError("write * alone, or only exact origins like https://shop.example.com")
    if any(not one.isascii() or not one.isprintable() for one in found):
        raise ValueError("write origins like https://shop.example.com")
    return found


def token_lifetime(value: object) -> int:
    """Microseconds, or `never_expire`."""
    lifetime_us = values.expiry(value)
    if lifetime_us == 0:
        raise ValueError("write a duration above 0 like 1 h, or never_expire")
    return lifetime_us


def body_size(value: object) -> int:
    """Bytes of the largest request body."""
    size_bytes = values.size(value)
    if not 1 <= size_bytes <= BODY_BYTES_MAX:
        raise ValueError("write a size from 1 B to 64 MiB, like 2 MB")
    return size_bytes


def algorithm_name(value: object) -> str:
    """HS256, HS384 or HS512, in any case."""
    return values.choice("hs256", "hs384", "hs512")(value).upper()


def is_base64(text: str) -> bool:
    """Whether the text is base64 of at least one byte."""
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def endpoint(value: object) -> str:
    """A path of one or more plain segments."""
    if not isinstance(value, str) or not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", value):
        raise ValueError("write a path like /metrics")
    return value


class Cors(Section, frozen=True):
    """What browsers are told about other origins."""

    enabled: Annotated[
        bool, flag("Answer preflights, and send the headers that let scripts of other origins in.")
    ] = True
    allowed_methods: Annotated[
        tuple[str, ...],
        Setting(verbs, "Methods that scripts may use.", show=show_words),
    ] = ("GET", "POST", "PUT", "DELETE")
    allowed_origins: Annotated[
        tuple[str, ...],
        Setting(
            origins,
            "Origins whose scripts may call: *, or exact ones. Every call needs a token anyway.",
            show=show_words,
        ),
    ] = ("*",)
    allowed_headers: Annotated[
        tuple[str, ...],
        Setting(header_names, "Request headers that scripts may send.", show=show_words),
    ] = ("content-type", "authorization")
    exposed_headers: Annotated[
        tuple[str, ...],
        Setting(header_names, "Response headers that scripts may read.", show=show_words),
    ] = ("iggy-view",)
    allow_credentials: Annotated[
        bool, flag("Let scripts send cookies; not together with a * in one of the lists.")
    ] = False
    allow_private_network: Annotated[
        bool, flag("Let pages of the public internet call a broker in a private network.")
    ] = False

    @property
    def problem(self) -> str | None:
        """What makes these settings unusable together."""
        lists = (self.allowed_origins, self.allowed_headers, self.exposed_headers)
        if self.allow_credentials and any("*" in one for one in lists):
            return "http.cors.allow_credentials = true: write no * in the lists of http.cors"
        return None


class Jwt(Section, frozen=True):
    """The tokens that a login gives."""

    algorithm: Annotated[
        str,
        Setting(
            algorithm_name,
            "HS256, HS384 or HS512: how tokens are signed.",
        ),
    ] = "HS256"
    issuer: Annotated[str, Setting(values.text, "The `iss` of tokens.")] = "iggy.apache.org"
    audience: Annotated[str, Setting(values.text, "The `aud` of tokens.")] = "iggy.apache.org"
    valid_issuers: Annotated[
        tuple[str, ...], Setting(words, "Each `iss` that is accepted.", show=show_words)
    ] = ("iggy.apache.org",)
    valid_audiences: Annotated[
        tuple[str, ...], Setting(words, "Each `aud` that is accepted.", show=show_words)
    ] = ("iggy.apache.org",)
    access_token_expiry_us: Annotated[
        int,
        Setting(
            token_lifetime,
            "How long a token is good, or never_expire.",
            name="access_token_expiry",
            show=values.show_duration,
        ),
    ] = 3600 * SECOND_US
    clock_skew_us: Annotated[
        int,
        Setting(
            values.duration,
            "By how much the clock of another issuer may differ.",
            name="clock_skew",
            show=values.show_duration,
        ),
    ] = 5 * SECOND_US
    not_before_us: Annotated[
        int,
        Setting(
            values.duration,
            "How long after its issue a token begins to be good.",
            name="not_before",
            show=values.show_duration,
        ),
    ] = 0
    encoding_secret: Annotated[
        Secret,
        Setting(
            values.secret,
            "What tokens are signed with, 32 bytes or more. Empty, and the other one too: a random "
            "one that is kept in the data directory.",
            secret=True,
        ),
    ] = Secret()
    decoding_secret: Annotated[
        Secret,
        Setting(values.secret, "The same again; one of the two is enough.", secret=True),
    ] = Secret()
    use_base64_secret: Annotated[bool, flag("The secrets are base64 of the bytes to use.")] = False
    trusted_issuers: Annotated[
        tuple[TrustedIssuer, ...],
        Setting(
            trusted_issuers,
            "Others whose tokens are taken: a list of tables, each with `issuer`, `audience`, "
            "`jwks_url` and the `user_id` that its tokens act as; or that list as JSON.",
            show=show_issuers,
        ),
    ] = ()

    @property
    def problem(self) -> str | None:
        """What makes these settings unusable together."""
        both = {self.encoding_secret, self.decoding_secret} - {""}
        if len(both) > 1:
            return "http.jwt.encoding_secret and decoding_secret differ: write one of them"
        if both and self.use_base64_secret and not is_base64(both.pop()):
            return "http.jwt.use_base64_secret = true: the secret is not base64 of any bytes"
        return None


class HttpMetrics(Section, frozen=True):
    """Metrics for those who are logged in; the monitoring listener has the same for all."""

    enabled: Annotated[bool, flag("Serve metrics on the HTTP interface.")] = True
    endpoint: Annotated[str, Setting(endpoint, "Where: a path.")] = "/metrics"


class Http(Section, frozen=True):
    """The HTTP interface: the same commands as over TCP, in JSON."""

    enabled: Annotated[bool, flag("Serve HTTP.")] = True
    address: Annotated[
        Address,
        Setting(values.address, "Where to listen, host:port; port 0 lets the system pick."),
    ] = Address("127.0.0.1", 3000)
    max_request_size_bytes: Annotated[
        int,
        Setting(
            body_size,
            "Largest body of a request; a larger one is answered 413.",
            name="max_request_size",
            show=values.show_size,
        ),
    ] = 2_000_000
    strict_compat: Annotated[
        bool,
        flag(
            "Behave like the original also where that is lax: a logged-out token stays good, one "
            "of a deleted or inactive user gets a 403, tokens die with the broker."
        ),
    ] = False
    web_ui: Annotated[
        bool, flag("Serve the web console under /ui; the original has it off, and no files for it.")
    ] = True
    cors: Cors = Cors()
    jwt: Jwt = Jwt()
    metrics: HttpMetrics = HttpMetrics()
    tls: Tls = Tls()

    @property
    def problem(self) -> str:
        """What is wrong with settings together; empty if nothing is."""
        return (self.cors.problem or self.jwt.problem or "") if self.enabled else ""
