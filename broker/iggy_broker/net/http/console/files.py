"""The files of the console: read once, when somebody looks at it, and served from memory.

`static` holds them as they are written: HTML, CSS and modules of JavaScript, with no build step.
Pages and modules name each other below one folder whose name is a hash of all of them, so a browser
keeps them for ever and never mixes two versions. Only the page itself is asked for anew each time.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from iggy_broker.net.http.replies import TEXT, Reply

ROOT: Final = "/ui"
FILES_BYTES_MAX: Final = 120_000  # of all files together: a shard has them in memory

_ASSETS: Final = f"{ROOT}/assets/"
_FOLDER: Final = Path(__file__).parent / "static"
_PAGE: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_CHARACTERS: Final = 16
_KEEP: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"

# Nothing from elsewhere, nothing inline, nowhere in a frame; text never becomes HTML by mistake.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


@dataclass(frozen=True, slots=True)
class _File:
    """One file, and how long a browser may keep it."""

    body: bytes
    content_type: str
    etag: str
    kept: str


def is_console(path: str) -> bool:
    """Whether a path as sent, without its query, is the console's."""
    return path == ROOT or path.startswith(ROOT + "/")


class Console:
    """All files of the console, by path."""

    def __init__(self, metrics_path: str | None) -> None:
        """`metrics_path`: where HTTP serves metrics; None if it does not."""
        self._metrics_path = metrics_path or ""

    @functools.cached_property
    def _files(self) -> dict[str, _File]:
        """Not read at start: most shards never show the console, and have no memory to spare."""
        found = {
            str(path.relative_to(_FOLDER)): path.read_bytes()
            for path in sorted(_FOLDER.rglob("*"))
            if path.suffix in _TYPES
        }
        size_bytes = sum(map(len, found.values()))
        assert size_bytes <= FILES_BYTES_MAX, f"{size_bytes} bytes of files"
        page = found.pop(_PAGE)
        folder = f"{_ASSETS}{_hash_of(found)}"
        filled = page.replace(b"{{assets}}", folder.encode())
        filled = filled.replace(b"{{metrics}}", escape(self._metrics_path).encode())
        files = {f"{folder}/{name}": _file(name, body, _KEEP) for name, body in found.items()}
        return files | {ROOT: _file(_PAGE, filled, _ASK_AGAIN)}

    def reply(self, method: str, path: str, known: str) -> Reply:
        """The answer to a request for a path of the console; `known`: its `If-None-Match`."""
        if method not in ("GET", "HEAD"):
            return Reply(405, headers=(("allow", "GET,HEAD"), *_HEADERS))
        file = self._files.get(path)
        if file is None:
            # A path without a dot is a place inside the console, of which the page itself knows.
            if "." in path or path.startswith(_ASSETS):
                return Reply(404, b"Not Found", TEXT, _HEADERS)
            file = self._files[ROOT]
        headers = (("etag", file.etag), ("cache-control", file.kept), *_HEADERS)
        if file.etag in known:
            return Reply(304, headers=headers)
        return Reply(200, file.body, file.content_type, headers)


def _file(name: str, body: bytes, kept: str) -> _File:
    return _File(body, _TYPES[Path(name).suffix], f'"{_hash_of({name: body})}"', kept)


def _hash_of(files: dict[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, body in files.items():
        found.update(b"%d %d " % (len(name), len(body)) + name.encode() + body)
    return found.hexdigest()[:_HASH_CHARACTERS]
