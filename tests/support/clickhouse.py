"""ClickHouse's engine behind an HTTP interface of our own.

The engine is chdb, a library; it runs in a process of its own, which ends with this one. The server
in front of it hands statements and data on, and answers with the engine's code and words as
ClickHouse documents it; the faults of `PlayedServer` happen there.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from played_server import PlayedServer, Reply, Request

ANSWER_S = 120.0  # of the engine, on a busy machine
_CODE = re.compile(r"Code: (\d+)")


def _engine(pipe: Connection, folder: str) -> None:
    """Carry out statements until nobody sends any more."""
    from chdb import session

    engine = session.Session(folder)
    while True:
        try:
            statement, form, parameters = pipe.recv()
        except EOFError:
            return
        try:
            found = engine.query(statement, form, params=parameters).bytes()
            pipe.send((0, found))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
            code = _CODE.search(str(error))
            pipe.send((int(code[1]) if code else 1002, str(error).encode()))


class Engine:
    """The process with the engine; for several threads."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._data = folder / "data.arrow"
        self._lock = threading.Lock()
        self._process = context.Process(
            target=_engine, args=(theirs, str(folder / "engine")), daemon=True
        )
        self._process.start()
        theirs.close()

    def close(self) -> None:
        self._pipe.close()
        self._process.join(ANSWER_S)

    def query(
        self,
        statement: str,
        *,
        form: str = "JSONCompact",
        parameters: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> tuple[int, bytes]:
        """Code of the error, or 0, and what it says. `data` goes with an INSERT."""
        with self._lock:
            if data is not None:
                self._data.write_bytes(data)
                head, _, settings = statement.rpartition(" SETTINGS ")
                statement = f"{head} FROM INFILE '{self._data}' SETTINGS {settings}"
            self._pipe.send((statement, form, parameters or {}))
            assert self._pipe.poll(ANSWER_S), "the engine does not answer"
            code, found = self._pipe.recv()
            return int(code), bytes(found)

    def rows(self, statement: str) -> list[list[Any]]:
        """The rows of a query, numbers as numbers."""
        settings = " SETTINGS output_format_json_quote_64bit_integers = 0"
        code, found = self.query(statement + settings)
        assert code == 0, found.decode()
        rows: list[list[Any]] = json.loads(found)["data"]
        return rows

    def run(self, statement: str) -> None:
        """A statement without rows."""
        code, found = self.query(statement)
        assert code == 0, found.decode()


class ClickHouse(PlayedServer):
    """The HTTP interface. `statements` are the inserts that reached the engine."""

    def __init__(self, engine: Engine, **settings: Any) -> None:
        super().__init__(**settings)
        self.engine = engine
        self.statements: list[str] = []

    def carries(self, request: Request) -> bool:
        return request.body.startswith(b"INSERT")

    def answer(self, request: Request) -> Reply:
        values = dict(parse_qsl(urlsplit(request.path).query))
        assert values.pop("wait_end_of_query") == "1"
        parameters = {name.removeprefix("param_"): text for name, text in values.items()}
        if self.carries(request):
            statement, _, data = request.body.partition(b"\n")
            self.statements.append(statement.decode())
            code, found = self.engine.query(statement.decode(), data=data)
        else:
            code, found = self.engine.query(request.body.decode(), parameters=parameters)
        return failed(code, found) if code else Reply(200, found)

    def tokens(self) -> list[str]:
        """First and last offset of each insert."""
        found = (re.search(r"_token = '[^']*/([^'/]+)'", text) for text in self.statements)
        return [hit[1] for hit in found if hit is not None]


def failed(code: int, text: bytes = b"", *, status: int = 500) -> Reply:
    """An error as the server tells it."""
    body = text or b"Code: %d. DB::Exception: played (PLAYED_ERROR)" % code
    return Reply(status, body, {"X-ClickHouse-Exception-Code": str(code)})
