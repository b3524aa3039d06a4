"""A MongoDB played by a test: the wire protocol on real sockets, collections in memory.

It knows OP_MSG, and OP_QUERY for the first hello, as MongoDB documents them; the commands hello,
ping, listCollections, find, insert, update; and logins by SCRAM-SHA-256 (RFC 7677).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import bson

from played_mongo_filters import matches
from threaded_server import ThreadedServer

Document = dict[str, Any]
LOST = "the command is carried out, and its answer never sent"
CLOSED = "nothing is done, and the connection ends"
HEAD = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
ITERATIONS = 4096
MECHANISMS = {"saslSupportedMechs": ["SCRAM-SHA-256"]}
LIMITS = {
    "maxBsonObjectSize": 16 << 20,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "minWireVersion": 0,
    "maxWireVersion": 25,
}


class PlayedMongo(ThreadedServer):
    """Serves while the block lasts. `collections` has name → id → document.

    `faults` are for the next writes, one each: LOST, CLOSED, or fields of the answer, such as
    {"ok": 0, "code": 189}. `judge` may refuse a document, with fields of a write error. `login` is
    the user and the password that is asked for. `history` has every document as it was written.
    """

    def __init__(self) -> None:
        self.collections: dict[str, dict[Any, Document]] = {}
        self.kinds: dict[str, str] = {}
        self.faults: deque[str | Document] = deque()
        self.judge: Callable[[Document], Document | None] = lambda document: None
        self.login: tuple[str, str] | None = None
        self.writes: list[Document] = []
        self.history: list[Document] = []
        self._lock = threading.Lock()
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        super().__init__(server)
        self.address = f"127.0.0.1:{server.server_address[1]}"
        self.url = f"mongodb://{self.address}"

    def documents(self) -> list[Document]:
        return [found for kept in self.collections.values() for found in kept.values()]

    def answer(self, command: Document, scram: Scram) -> Document | None:
        """None: close the connection."""
        name = next(iter(command))
        if name in ("hello", "isMaster", "ismaster"):
            return {"isWritablePrimary": True, "ismaster": True, **LIMITS, **MECHANISMS, "ok": 1}
        if name.startswith("sasl"):
            return scram.answer(command, self.login)
        if self.login is not None and not scram.is_done:
            return {"ok": 0, "code": 13, "errmsg": f"Command {name} requires authentication"}
        with self._lock:
            return self._answer(name, command)

    def _answer(self, name: str, command: Document) -> Document | None:
        if name == "listCollections":
            wanted = command.get("filter", {}).get("name")
            found = [{"name": wanted, "type": self.kinds[wanted]}] if wanted in self.kinds else []
            cursor = {"id": 0, "ns": "x.$cmd.listCollections", "firstBatch": found}
            return {"cursor": cursor, "ok": 1}
        if name == "find":
            kept = self.collections.get(command["find"], {})
            found = [one for one in kept.values() if matches(one, command["filter"])]
            return {"cursor": {"id": 0, "ns": "x.y", "firstBatch": found}, "ok": 1}
        if name not in ("insert", "update"):
            return {"ok": 1}
        self.writes.append(command)
        fault = self.faults.popleft() if self.faults else None
        if fault == CLOSED or (isinstance(fault, dict) and fault.get("ok") == 0):
            return None if isinstance(fault, str) else fault
        reply = self._write(name, command)
        if fault == LOST:
            return None
        return reply | fault if isinstance(fault, dict) else reply

    def _write(self, name: str, command: Document) -> Document:
        assert command["writeConcern"] == {"w": "majority"}
        kept = self.collections.setdefault(command[name], {})
        errors = []
        done = 0
        for index, item in enumerate(command["documents" if name == "insert" else "updates"]):
            document = item if name == "insert" else item["u"]
            assert name == "insert" or item["upsert"] is True
            wrong = self.judge(document) or _refused(kept, document, item.get("q"))
            if wrong is not None:
                errors.append({"index": index, **wrong})
                if command["ordered"]:
                    break
                continue
            kept[document["_id"]] = document
            self.history.append(document)
            done += 1
        return {"n": done, "nModified": 0, "ok": 1} | ({"writeErrors": errors} if errors else {})


def _refused(kept: Document, document: Document, wanted: Document | None) -> Document | None:
    """Of an insert, or of a replacement that inserts where it finds nothing: the id is there."""
    id_ = document["_id"]
    if id_ not in kept or (wanted is not None and matches(kept[id_], wanted)):
        assert wanted is None or wanted["_id"] == id_
        return None
    return {
        "code": 11000,
        "keyPattern": {"_id": 1},
        "keyValue": {"_id": id_},
        "errmsg": "E11000 duplicate key error collection: shop.orders index: _id_",
    }


class Scram:
    """One login, from the server's side."""

    def __init__(self) -> None:
        self.is_done = False
        self._said = ""
        self._nonce = ""

    def answer(self, command: Document, login: tuple[str, str] | None) -> Document:
        refused = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed",
                   "errmsg": "Authentication failed."}  # fmt: skip
        if login is None or command.get("mechanism", "SCRAM-SHA-256") != "SCRAM-SHA-256":
            return refused
        text = bytes(command["payload"]).decode()
        if "saslStart" in command:
            first = text.removeprefix("n,,")
            fields = dict(part.split("=", 1) for part in first.split(","))
            if fields["n"] != login[0]:
                return refused
            self._nonce = fields["r"] + "served"
            salt = base64.b64encode(b"salt").decode()
            told = f"r={self._nonce},s={salt},i={ITERATIONS}"
            self._said = f"{first},{told}"
            return _step(told, done=False)
        return self._finish(text, login[1]) or refused

    def _finish(self, text: str, password: str) -> Document | None:
        bare, _, proof = text.rpartition(",p=")
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", ITERATIONS)
        said = f"{self._said},{bare}".encode()
        key = _mac(salted, b"Client Key")
        signature = _mac(hashlib.sha256(key).digest(), said)
        if bytes(a ^ b for a, b in zip(key, signature, strict=True)) != base64.b64decode(proof):
            return None
        self.is_done = True
        verified = _mac(_mac(salted, b"Server Key"), said)
        return _step("v=" + base64.b64encode(verified).decode(), done=True)


def _step(payload: str, *, done: bool) -> Document:
    return {"conversationId": 1, "done": done, "payload": payload.encode(), "ok": 1}


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _handler(played: PlayedMongo) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        request: socket.socket

        def handle(self) -> None:
            scram = Scram()
            while (head := _read(self.request, HEAD.size)) is not None:
                size, asked, _, kind = HEAD.unpack(head)
                body = _read(self.request, size - HEAD.size)
                if body is None:
                    return
                reply = played.answer(_query(body) if kind == OP_QUERY else _message(body), scram)
                if reply is None:
                    return
                data = bson.encode(reply)
                if kind == OP_QUERY:
                    kind, data = OP_REPLY, struct.pack("<iqii", 8, 0, 0, 1) + data
                else:
                    data = bytes(5) + data
                self.request.sendall(HEAD.pack(HEAD.size + len(data), 0, asked, kind) + data)

    return Handler


def _read(connection: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        try:
            part = connection.recv(size - len(found))
        except ConnectionError:
            return None
        if not part:
            return None
        found += part
    return bytes(found)


def _query(body: bytes) -> Document:
    return bson.decode(body[body.index(b"\0", 4) + 9 :])


def _message(body: bytes) -> Document:
    """The command, with the documents that come in sections of their own."""
    command: Document = {}
    at = 4  # behind the flags, of which none is set
    while at < len(body):
        kind, (size,) = body[at], struct.unpack_from("<i", body, at + 1)
        section = body[at + 1 : at + 1 + size]
        if kind == 0:
            command = {**bson.decode(section), **command}
        else:
            name, _, documents = section[4:].partition(b"\0")
            command[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return command
