"""A small client of the API server: JSON over one connection, watches line by line."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Document = dict[str, Any]

TIMEOUT_S = 30.0
WATCH_S = 240  # the server ends a watch after this, and it is begun anew
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"


class ApiError(Exception):
    """The API server refused: `code` is the HTTP status, the text its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One server. Each call opens its own connection, so threads may share it."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._address = urllib.parse.urlsplit(url)
        self._context = context

    @staticmethod
    def from_kubeconfig(path: Path) -> Api:
        """Of a kubeconfig in JSON with a client certificate inside, as this cluster writes them."""
        config = json.loads(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        # OpenSSL reads a client's pair from a file only; it is gone again after that.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]))
            pair.write(base64.b64decode(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        return Api(cluster["server"], context)

    def get(self, path: str) -> Document:
        return self.call("GET", path)

    def create(self, path: str, document: Mapping[str, Any]) -> Document:
        return self.call("POST", path, document)

    def merge(self, path: str, changes: Mapping[str, Any]) -> Document:
        return self.call("PATCH", path, changes, kind=MERGE_PATCH)

    def delete(self, path: str) -> Document:
        return self.call("DELETE", path)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = JSON
    ) -> Document:
        """The answer's document; ApiError for any status from 400 on."""
        connection = self._connection(TIMEOUT_S)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": kind, "Accept": JSON})
            answer = connection.getresponse()
            return _document(answer.status, answer.read())
        finally:
            connection.close()

    def watch(self, path: str, version: str) -> Iterator[Document]:
        """Events after `version` until the server ends the watch; ApiError 410 if it is too old."""
        connection = self._connection(WATCH_S + TIMEOUT_S)
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        try:
            connection.request("GET", f"{path}{'&' if '?' in path else '?'}{query}")
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                _document(answer.status, answer.read())
            for line in answer:
                event: Document = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 500), status.get("message", ""))
                yield event
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._context)


def _document(status: int, body: bytes) -> Document:
    try:
        document: Document = json.loads(body)
    except ValueError:
        document = {"message": body.decode(errors="replace")}
    if status >= http.client.BAD_REQUEST:
        raise ApiError(status, str(document.get("message", document)))
    return document
