"""TLS of the listeners: contexts whose certificates follow their files.

One `ListenerTls` for each listener that has TLS. Its `context` is what a server is given, and stays
the same; the certificate in it is that of the files as they are now. They are looked at every
`LOOK_S` by name, so a Kubernetes Secret that changes its symbolic links counts, too. Files that
cannot be used change nothing: what was read before goes on.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from iggy_broker.config import Config
from iggy_broker.config_transports import Tls
from iggy_broker.config_values import reached
from iggy_broker.errors import CertificateError
from iggy_broker.logs import event
from iggy_broker.net.certificates import (
    Facts,
    Pair,
    ensure_own,
    facts_of,
    names_of,
    own_pair,
)
from iggy_broker.net.listener import addresses_of, tls_of

logger = logging.getLogger(__name__)

LOOK_S: Final = 2.0  # how often the files are looked at
NO_PASSPHRASE: Final = ""  # else OpenSSL asks on the terminal

_Stamp = tuple[tuple[int, int, int] | None, ...]


def prepare(config: Config, now: datetime.datetime | None = None) -> None:
    """Before the shards: make our own certificate if it is needed, and try every other.

    Raises CertificateError for what cannot be used, and OSError if ours cannot be written.
    """
    wanted = tls_of(config)
    if any(_given(name, tls) is None for name, tls in wanted.items()):
        hosts = [address.host for address in addresses_of(config).values()]
        if advertised := config.tcp.advertised_address:
            hosts.append(reached(advertised)[0])
        ensure_own(config.system.path, names_of(hosts), now or datetime.datetime.now(datetime.UTC))
    for name, tls in wanted.items():
        ListenerTls(name, tls, config.system.path)


class ListenerTls:
    """The certificate of one listener, and the context that it accepts with."""

    def __init__(self, name: str, settings: Tls, root: Path, *, tells: bool = False) -> None:
        """Read the files. Raises CertificateError if they cannot be used.

        `name` is the listener's key in the settings; our own certificate is in `root`. `tells`:
        log what is read; one shard does for all.
        """
        self.name = name
        self.reloads = 0
        self.refusals = 0  # files that could not be used
        # For who uses the files in another way; CertificateError if they are of no use there.
        self.on_changed: Callable[[Pair], None] = lambda pair: None
        self._settings = settings
        self._root = root
        self._tells = tells
        self._stamp = self._stamped()
        self.pair, self.facts, self._current = self._read()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(self.context, self.pair, settings.ca_file)
        # Called in each handshake, also when the client names no server.
        self.context.sni_callback = self._use_current
        self._tell()

    def look(self) -> None:
        """Read the files again if they changed; keep what there is if they cannot be used."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            pair, facts, context = self._read()
            self.on_changed(pair)
        except CertificateError as error:
            self.refusals += 1
            if self._tells:
                told = event("certificate_refused", listener=self.name)
                logger.error("! the certificate before stays in use: %s", error, extra=told)
            return
        self.pair, self.facts, self._current = pair, facts, context
        self.reloads += 1
        self._tell()

    def _read(self) -> tuple[Pair, Facts, ssl.SSLContext]:
        pair = _given(self.name, self._settings) or own_pair(self._root)
        facts = facts_of(pair.cert)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, pair, self._settings.ca_file)
        return pair, facts, context

    def _use_current(
        self, connection: ssl.SSLSocket | ssl.SSLObject, server: str, context: ssl.SSLContext
    ) -> None:
        del server, context
        connection.context = self._current

    def _stamped(self) -> _Stamp:
        settings, own = self._settings, own_pair(self._root)
        names = (settings.cert_file, settings.key_file, settings.ca_file, own.cert, own.key)
        return tuple(_stamp_of(Path(name)) if name else None for name in names)

    def _tell(self) -> None:
        if not self._tells:
            return
        is_own = self.pair == own_pair(self._root)
        logger.info(
            "= %s: certificate %s, until %s",
            self.name,
            self.facts.fingerprint,
            datetime.datetime.fromtimestamp(self.facts.expires_s, datetime.UTC).isoformat(),
            extra=event(
                "certificate_loaded",
                listener=self.name,
                sha256=self.facts.fingerprint,
                subject=self.facts.subject,
                expires_s=self.facts.expires_s,
                self_signed=is_own,
                path=str(self.pair.cert),
            ),
        )


class Certificates:
    """All listeners of one shard that have TLS."""

    def __init__(self, config: Config, *, tells: bool) -> None:
        """Read all. Raises CertificateError; `prepare` has tried before."""
        root = config.system.path
        self._listeners = {
            name: ListenerTls(name, tls, root, tells=tells) for name, tls in tls_of(config).items()
        }

    @property
    def listeners(self) -> Mapping[str, ListenerTls]:
        """By name: `tcp`, `http`, `quic`, `websocket`."""
        return self._listeners

    async def watch(self) -> None:
        """Follow the files, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            look_at(self._listeners.values())


def look_at(listeners: Iterable[ListenerTls]) -> None:
    """One look at the files of all."""
    for listener in listeners:
        listener.look()


def _given(name: str, settings: Tls) -> Pair | None:
    """The files that the settings name; None: our own certificate is to be used."""
    cert, key = settings.cert_file, settings.key_file
    table = "quic.certificate" if name == "quic" else f"{name}.tls"
    if bool(cert) != bool(key):
        missing = "key_file" if cert else "cert_file"
        raise CertificateError(f"{table}.{missing} is not set although its partner is; set both")
    pair = Pair(Path(cert).expanduser(), Path(key).expanduser())
    if cert and pair.cert.exists() and pair.key.exists():
        return pair
    if settings.self_signed:
        return None
    if not cert:
        fix = f"write {table}.cert_file and key_file, or {table}.self_signed = true"
        raise CertificateError(f"{name} has TLS and no certificate; {fix}")
    absent = pair.key if pair.cert.exists() else pair.cert
    raise CertificateError(f"{absent}: no such file; change {table}.cert_file or key_file")


def _load(context: ssl.SSLContext, pair: Pair, ca_file: str) -> None:
    try:
        context.load_cert_chain(pair.cert, pair.key, password=NO_PASSPHRASE)
    except ssl.SSLError as error:
        fix = "write PEM files of a certificate and its own key, without a passphrase"
        raise CertificateError(f"{pair.cert}, {pair.key}: {_reason(error)}; {fix}") from None
    except OSError as error:
        raise CertificateError(f"{pair.key}: cannot be read ({error.strerror})") from None
    if ca_file:
        try:
            context.load_verify_locations(Path(ca_file).expanduser())
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{ca_file}: no PEM file of authorities ({error})") from None
        context.verify_mode = ssl.CERT_REQUIRED


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not usable").replace("_", " ").lower()


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.expanduser().stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
