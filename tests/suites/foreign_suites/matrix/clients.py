"""The clients of the matrix, what each is built with, and what cannot be had of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foreign_suites.matrix.job import Lack, Transport
from foreign_suites.matrix.programs import (
    CliProgram,
    JavaProgram,
    Program,
    PythonProgram,
    RustProgram,
)

_OLD, _P11, _P12 = "up to 0.8", "0.11", "0.12"
_NOT_OFFERED = "the client does not offer it"
_NO_AUTHORITY = "the program takes no certificate of an authority"
_NO_STRATEGY = (
    "the client names where to read in words that no server knows (`strategy_kind`), and is given"
    " the first messages again and again"
)
_NO_RUNTIME = "the client makes its endpoint outside of its own runtime, and fails before it sends"


@dataclass(frozen=True, slots=True)
class Client:
    """One version of a client. `without`: transports that it cannot be run over, and why."""

    name: str  # as `-k` has it
    title: str
    version: str
    protocol: str
    program: Program
    without: Mapping[Transport, str] = field(default_factory=dict)

    @property
    def transports(self) -> list[Transport]:
        """Those that it is run over."""
        return [one for one in Transport if one not in self.without]

    def cell(self, transport: Transport) -> str:
        """The name of a cell, as results and `-k` have it."""
        return f"{self.name} {self.version} {transport}"


_PYTHON, _RUST = "Python, `apache-iggy`", "Rust, crate `iggy`"
_CLI, _JAVA = "command line, crate `iggy-cli`", "Java, `org.apache.iggy:iggy`"
_NO_QUIC = {Transport.QUIC: _NO_RUNTIME}
_ONLY_PLAIN = {Transport.TCP_TLS: _NO_AUTHORITY, Transport.WEBSOCKET_TLS: _NOT_OFFERED}
_ONLY_TCP = dict.fromkeys(
    (Transport.WEBSOCKET, Transport.WEBSOCKET_TLS, Transport.QUIC), _NOT_OFFERED
)
_NOT_BY_HTTP = _ONLY_TCP | {Transport.HTTP: _NO_STRATEGY}

CLIENTS = (
    Client("python", _PYTHON, "0.8.0", _OLD, PythonProgram(), _NO_QUIC),
    Client("python", _PYTHON, "0.9.0", _P11, PythonProgram()),
    Client("python", _PYTHON, "0.9.1.dev5", _P12, PythonProgram()),
    Client("rust", _RUST, "0.10.0", _OLD, RustProgram("v010")),
    Client("rust", _RUST, "0.11.0", _P11, RustProgram("v011")),
    Client("rust", _RUST, "0.11.1-edge.9", _P12, RustProgram("v012")),
    Client("cli", _CLI, "0.14.0", _P11, CliProgram(), _ONLY_PLAIN),
    Client("cli", _CLI, "0.14.1-edge.7", _P12, CliProgram(), _ONLY_PLAIN),
    Client("java", _JAVA, "0.6.0", _OLD, JavaProgram(), _NOT_BY_HTTP),
    Client("java", _JAVA, "0.7.0", _OLD, JavaProgram(), _NOT_BY_HTTP),
    Client("java", _JAVA, "0.8.0", _OLD, JavaProgram(), _ONLY_TCP),
)

ORDER = [client.cell(transport) for client in CLIENTS for transport in client.transports]

# Clients that could not be had when the table was made.
NOT_SERVED = dict.fromkeys(
    ("Go, `github.com/apache/iggy/foreign/go`", "Node.js, `apache-iggy`", "C#, `Apache.Iggy`"),
    "its registry did not serve it where this table was made",
)

# What a round trip goes without, in words.
LACKS = {
    Lack.KEYS: "the client cannot send by key: it names the partition of each key itself",
    Lack.GROUP: "no groups there: it reads each partition as a single consumer",
    Lack.NAME: "its consumer has no name of its own",
    Lack.DELETE: "the client cannot delete: the stream is deleted by ours",
}
