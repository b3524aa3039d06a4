"""TLS in front of something that speaks none: certificates made on the spot, and a terminator."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """A certificate that signs itself, for one name, with its key."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> str:
        return self.certificate.read_text()


def authority(folder: Path, *names: str) -> Authority:
    """Valid for these names, or addresses in digits, and a few days."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Authority(folder / "certificate.pem", folder / "key.pem")
    kinds = ("IP" if name.replace(".", "").isdigit() else "DNS" for name in names)
    alternatives = ",".join(f"{kind}:{name}" for kind, name in zip(kinds, names, strict=True))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "3", "-subj", f"/CN={names[0]}", "-addext",
         f"subjectAltName={alternatives}", "-keyout", str(made.key), "-out",
         str(made.certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


class TlsFront:
    """Ends TLS on a port of its own, and passes the bytes on."""

    def __init__(self, target: str, made: Authority) -> None:
        self.port = 0
        self.connections = 0
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(made.certificate, made.key)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(target=self._run, name="tls front", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        # Whoever breaks off a handshake on purpose needs no traceback.
        self._loop.set_exception_handler(lambda loop, context: None)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:  # clients in other processes may never close theirs
            writer.transport.abort()
        closed = (writer.wait_closed() for writer in self._writers)
        await asyncio.gather(*closed, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        self._writers += [writer, inner_writer]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, inner_writer))
                tasks.create_task(_pump(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def tls_front(target: str, made: Authority) -> Iterator[TlsFront]:
    """While the block lasts."""
    front = TlsFront(target, made)
    front.start()
    try:
        yield front
    finally:
        front.end()
