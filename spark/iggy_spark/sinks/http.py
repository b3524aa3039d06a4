"""Requests to a web service. At least once: a service that wants more looks at Idempotency-Key.

The requests of a partition follow one another, so that its order is kept. A service takes a request
whole or not at all; of one that it refuses the halves are sent, down to the messages that it does
not want.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from iggy_spark import blocks, options
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import http_body
from iggy_spark.sinks.base import Portion, Refusal, Spans, Task, Written
from iggy_spark.sinks.circuit import Circuit, Own, State, pause_s
from iggy_spark.sinks.web import SUCCESS, TOO_LARGE, Answer, Place, Web, checked
from iggy_spark.sinks.web_chunks import Refused, Run, runs, search
from iggy_spark.sinks.web_login import FileLogin, Login, OAuth2Login

BODY_BYTES_MAX: Final = 1 << 20
BODY_ROWS_MAX: Final = 1_000
# No message is at fault: the method, the proxy, the kind of content.
_SETTINGS: Final = frozenset({405, 407, 415})
_LOGIN_FILES: Final = ("token", "username", "password")


class HttpSink:
    """Sends ranges by requests."""

    exactly_once = False
    keeps_place = False

    def __init__(
        self,
        settings: blocks.Http,
        payload: Payload,
        *,
        name: str,
        retry: Retry,
        circuit: State | None = None,
    ) -> None:
        """`name` is the sink's; it is part of the keys of requests. `circuit` is what its tasks
        share of the breaker. Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        self._settings, self._name, self._retry = settings, name, retry
        self._circuit = Circuit(circuit or Own(), pause_s=pause_s(retry.policy))
        self._texts = http_body.texts(settings, payload)
        self._headers = http_body.headers(settings, payload)
        if any(code not in SUCCESS for code in settings.success_codes):
            raise OptionError("http.successCodes: a code of success is 200 to 299")
        timeout_ms = options.parse_duration_ms("http.timeout", settings.timeout)
        if timeout_ms == 0:
            raise OptionError("http.timeout: must be more than 0, such as 30s")
        self._place = Place(
            "http",
            (settings.url,),
            ca_path=settings.ca_path,
            client_path=settings.credentials_path,
            timeout_s=timeout_ms / 1000,
        )

    def check(self) -> None:
        """See whether something answers, by an empty HEAD, and buy a token if that is the login.

        Raises:
            SinkError: nothing answers.
            OptionError: the token server does not know the login.
        """
        with self._web() as web:
            checked(web.reach)

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """A service keeps nothing that it could tell."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Send everything; return when the service has confirmed it.

        Raises:
            SinkError: the service does not take it for as long as `errors.retry` says, or does not
                want this login.
        """
        rows = size_bytes = 0
        with self._web() as web:
            for portion in portions:
                bad = 0
                for refusal in self._send(web, portion):
                    task.refuse(portion, [refusal])
                    bad += 1
                rows += portion.rows.num_rows - bad
                size_bytes += portion.rows.nbytes
        task.confirm()
        return Written(wanted.partition, wanted.first, wanted.end, rows=rows, size_bytes=size_bytes)

    def _send(self, web: Web, portion: Portion) -> Iterator[Refusal]:
        texts = self._texts(portion)
        offsets = portion.rows.column("iggy_offset").to_pylist()
        known = portion.messages  # dead letters on their way back have other places than ours
        place = f"{quote(self._name, safe='')}-{known.incarnation}-{known.partition}"

        def send(run: Run) -> Refused | None:
            first, end = run
            # The same messages have the same key, whenever and by whomever they are sent.
            key = f"{place}-{offsets[first]}-{offsets[end - 1]}"
            return self._request(web, key, texts[first:end])

        sizes = [len(text) for text in texts]
        is_single = self._settings.body in ("Individual", "Raw")
        rows_max = 1 if is_single else BODY_ROWS_MAX
        for run in runs(sizes, bytes_max=BODY_BYTES_MAX, rows_max=rows_max):
            for row, reason in search(run, send):
                yield Refusal(offsets[row], "write", reason.kind, reason.message)

    def _request(self, web: Web, key: str, texts: Sequence[bytes]) -> Refused | None:
        body = http_body.together(self._settings, texts)
        headers = {**self._headers, "Idempotency-Key": key}

        def work() -> Refused | None:
            method = self._settings.method
            answer = self._circuit.call(lambda: web.send(method, body=body, headers=headers))
            return self._judge(answer)

        return self._retry.call(work, what=self._place.name)

    def _judge(self, answer: Answer) -> Refused | None:
        if answer.status in (self._settings.success_codes or SUCCESS):
            return None
        if answer.is_success:
            raise TransientError(
                f"{answer.where} answers {answer.status}, which is not in http.successCodes"
            )
        if answer.status in _SETTINGS:
            raise SinkError(
                f"http.url: {answer.where} answers {answer.status} to {self._settings.method}: "
                f"{answer.text}: correct url, method or headers"
            )
        words = f"{answer.status} {answer.text}"
        return Refused(f"Status{answer.status}", words, by_size=answer.status == TOO_LARGE)

    def _web(self) -> Web:
        settings = self._settings
        login: Login
        if settings.oauth2 is not None:
            login = OAuth2Login("http", settings.credentials_path, settings.oauth2)
        else:
            login = FileLogin("http", settings.credentials_path, _LOGIN_FILES)
        return Web(self._place, login)

    def commit(self, results: Sequence[Written]) -> None:
        """Nothing: what the service has confirmed is done."""

    def close(self) -> None:
        """Nothing is open between tasks."""
