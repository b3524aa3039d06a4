"""Calls of web services: several addresses, login, certificates, and what their answers mean.

An answer is one of three: it can be used; the service cannot just now (`TransientError`); the login
is wrong (`Denied`). What else a status means is for each sink to say.
"""

from __future__ import annotations

import email.utils
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import TransientError
from iggy_spark.sinks.web_login import (
    FORBIDDEN,
    UNAUTHORIZED,
    Denied,
    Login,
    is_transient,
    reason_of,
    shown,
    tls,
)

ANSWER_BYTES_MAX: Final = 32 << 20
TEXT_CHARS_MAX: Final = 400  # of an answer, in an error
CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 60.0  # where no other is set
TOO_LARGE: Final = 413
NOT_FOUND: Final = 404
REDIRECT: Final = range(300, 400)
SUCCESS: Final = range(200, 300)
# The node itself is in trouble: another one may not be.
_ELSEWHERE: Final = frozenset({500, 502, 503, 504})

T = TypeVar("T")

# It would write addresses with all that is behind their question mark.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Unreachable(TransientError):
    """One address does not do it just now; another may."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service says. `text` is for people: short, and without our secrets."""

    status: int
    body: bytes
    text: str
    where: str  # the address that answered, as it may be shown

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return self.status in SUCCESS

    def read(self, kind: type[T]) -> T:
        """The body, which is JSON.

        Raises:
            TransientError: it is not, or not such: perhaps something else answers at the address.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise TransientError(
                f"{self.where} answers {self.status} with something else than expected: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service is, and how it is reached."""

    block: str  # name of the sink's block, for errors
    urls: tuple[str, ...]
    ca_path: str | None = None
    client_path: str | None = None  # folder of a certificate of ours
    timeout_s: float = ANSWER_TIMEOUT_S

    @property
    def name(self) -> str:
        """For errors."""
        return f"{self.block}: {', '.join(shown(url) for url in self.urls)}"


class Web:
    """A connection to a service, for the length of a block. For one thread."""

    def __init__(self, place: Place, login: Login, *, first: int = 0) -> None:
        """`first` chooses the address that is tried first, so that tasks spread.

        Raises:
            OptionError: an address or a certificate cannot be used.
        """
        for url in place.urls:
            try:
                httpx.URL(url)
            except httpx.InvalidURL as error:
                raise OptionError(f"{place.block}: {shown(url)} is no address: {error}") from error
        self._place, self._login = place, login
        self._at = first % len(place.urls)
        timeout = httpx.Timeout(place.timeout_s, connect=min(CONNECT_TIMEOUT_S, place.timeout_s))
        context = tls(place.block, place.ca_path, place.client_path)
        self._client = httpx.Client(timeout=timeout, verify=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """For whoever needs it longer than a block."""
        self._client.close()

    def send(
        self,
        method: str,
        path: str = "",
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, at the next address if one is not reached. `path` goes behind the address.

        The service may have done what was asked although this raises.

        Raises:
            TransientError: it can be asked again.
            Denied: the login is wrong.
            SinkError: the service is somewhere else, or answers without an end.
        """
        for _ in self._place.urls[1:]:
            try:
                return self._send(method, path, body, headers or {})
            except Unreachable:
                self._at = (self._at + 1) % len(self._place.urls)
        try:
            return self._send(method, path, body, headers or {})
        except Unreachable:
            self._at = (self._at + 1) % len(self._place.urls)
            raise

    def reach(self) -> None:
        """See whether something answers; what it says to an empty HEAD does not matter.

        Raises:
            TransientError: nothing does.
            Denied, SinkError: no token can be had.
        """
        self._once("HEAD", self._place.urls[self._at], b"", {})

    def ask(
        self,
        method: str,
        path: str = "",
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Answer, httpx.Headers]:
        """One request at the present address, and its answer with its headers, whatever it says:
        for services that tell in another way than by the status.

        Raises:
            TransientError: nothing answers.
            SinkError: the answer has no end.
        """
        url = joined(self._place.urls[self._at], path)
        answer, said = self._once(method, url, body, headers or {})
        if answer.status == UNAUTHORIZED and self._login.renew():
            answer, said = self._once(method, url, body, headers or {})
        return answer, said

    def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        answer, said = self.ask(method, path, body=body, headers=headers)
        self.judge(answer, said)
        return answer

    def judge(self, answer: Answer, said: httpx.Headers) -> None:
        """What a status says of any service. Raises as `send` does."""
        if is_transient(answer.status):
            trouble = f"{answer.where} answers {answer.status}: {answer.text}"
            kind = Unreachable if answer.status in _ELSEWHERE else TransientError
            raise kind(trouble, after_s=retry_after_s(said.get("retry-after"), now_s=time.time()))
        if answer.status in (UNAUTHORIZED, FORBIDDEN):
            raise Denied(
                f"{self._place.block}.credentialsPath: {answer.where} answers {answer.status} to "
                f"this login: {answer.text}",
                answer.status,
            )
        if answer.status in REDIRECT:
            target = shown(said.get("location", "another address"))
            raise SinkError(
                f"{self._place.block}: {answer.where} answers {answer.status} and sends on to "
                f"{target}: write the address that is meant in the end"
            )

    def _once(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[Answer, httpx.Headers]:
        where = shown(url)
        sent = {**headers, **self._login.headers(self._client)}
        try:
            with self._client.stream(method, url, content=body, headers=sent) as response:
                found = self._read(response, where)
        except httpx.TransportError as error:
            text = f"{where}: {reason_of(error)}"
            raise Unreachable(text, cause="unreachable") from error
        except httpx.DecodingError as error:  # says it is compressed, and is not
            raise TransientError(f"{where}: {reason_of(error)}") from error
        text = self._for_people(found.decode(errors="replace"))
        return Answer(response.status_code, found, text, where), response.headers

    def _read(self, response: httpx.Response, where: str) -> bytes:
        found = bytearray()
        for part in response.iter_bytes():
            found += part
            if len(found) > ANSWER_BYTES_MAX:
                raise SinkError(f"{where} answers with more than {ANSWER_BYTES_MAX >> 20} MiB")
        return bytes(found)

    def _for_people(self, text: str) -> str:
        for secret in self._login.secrets:
            if secret:
                text = text.replace(secret, "***")
        line = " ".join(text[: 4 * TEXT_CHARS_MAX].split())
        return line[:TEXT_CHARS_MAX] or "nothing more"


def joined(url: str, path: str) -> str:
    """An address with a path behind its own, in front of its query."""
    if not path:
        return url
    parts = urlsplit(url)
    own, _, query = path.partition("?")
    together = "&".join(text for text in (parts.query, query) if text)
    return parts._replace(path=parts.path.rstrip("/") + own, query=together).geturl()


def retry_after_s(value: str | None, *, now_s: float) -> float | None:
    """How long a service wants to be left alone: seconds, or a date (RFC 9110, 10.2.3).

    None if it does not say, nothing readable, or a time that is over: then we choose.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        pause_s = float(value)
    else:
        try:
            pause_s = email.utils.parsedate_to_datetime(value).timestamp() - now_s
        except (ValueError, OverflowError):
            return None
    return pause_s if pause_s > 0 else None


def checked(work: Callable[[], T]) -> T:
    """What a check finds out, with errors as a check has them.

    Raises:
        OptionError: the login is wrong: no other start can help.
        SinkError: the service is not there.
    """
    try:
        return work()
    except Denied as error:
        raise OptionError(str(error)) from error
    except TransientError as error:
        raise SinkError(str(error)) from error
