"""Calls of ClickHouse's HTTP interface, and what its error codes mean.

A code, in the header X-ClickHouse-Exception-Code, says more than the status, which has changed from
version to version. Source: ErrorCodes of the engine, and its documentation of the HTTP interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec

from iggy_spark.errors import SinkError
from iggy_spark.retry import TransientError
from iggy_spark.sinks.web import TOO_LARGE, Answer, Web
from iggy_spark.sinks.web_chunks import Refused
from iggy_spark.sinks.web_login import FORBIDDEN, Denied

CODE: Final = "X-ClickHouse-Exception-Code"
# Not now: time-outs, no connection, no room, no quorum, too busy, another replica is leader.
_LATER: Final = frozenset(
    {159, 160, 198, 201, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 254, 279, 285, 286, 319}
    | {394, 425, 439, 473, 499, 692, 733, 745, 999}
)
# A value of a row: it cannot be read as the column's type, or a constraint does not want it.
_ROW: Final = frozenset(
    {6, 26, 27, 38, 41, 53, 69, 70, 72, 117, 131, 153, 190, 321, 349, 376, 395, 407, 441, 469}
    | {675, 676, 691}
)
_LOGIN: Final = frozenset({192, 193, 194, 497, 516})  # unknown, wrong, missing, not allowed
UNKNOWN_TABLE: Final = frozenset({60, 81})  # or database
_NAME = re.compile(r"\(([A-Z][A-Z0-9_]{3,})\)")
# The answer comes when all is done, so that its status tells how it ended.
_PATH: Final = {"wait_end_of_query": "1"}


class _Rows(msgspec.Struct, frozen=True):
    """Format JSONCompact."""

    data: list[list[str]] = []


def select(web: Web, query: str, parameters: Mapping[str, str]) -> Sequence[Sequence[str]]:
    """The rows of a query whose columns are all texts; `parameters` fill in its {name:String}.

    Raises:
        TransientError: it can be asked again.
        Denied: the login is wrong.
        SinkError: the server does not carry it out.
    """
    values = {f"param_{name}": value for name, value in parameters.items()}
    answer, refused = _ask(web, f"{query} FORMAT JSONCompact".encode(), values)
    if refused is not None:
        raise _wrong(answer)
    return answer.read(_Rows).data


def insert(web: Web, statement: str, stream: bytes) -> Refused | None:
    """Insert an Arrow stream. Not None: nothing was inserted, since a row of it is at fault.

    Raises: as `select`.
    """
    return _ask(web, statement.encode() + b" FORMAT ArrowStream\n" + stream, {})[1]


def _ask(web: Web, body: bytes, values: Mapping[str, str]) -> tuple[Answer, Refused | None]:
    path = "/?" + urlencode({**_PATH, **values})
    answer, said = web.ask("POST", path, body=body)
    found = said.get(CODE, "")
    if not found.isdecimal():
        if answer.status == TOO_LARGE:  # something in front of the server
            return answer, Refused("TooLarge", f"{answer.status} {answer.text}", by_size=True)
        web.judge(answer, said)
        if not answer.is_success:
            raise _wrong(answer)
        return answer, None
    code = int(found)
    if code in _ROW:
        return answer, Refused(_name(answer, code), answer.text)
    if code in _LATER:
        raise TransientError(f"{answer.where} cannot just now: {answer.text}")
    if code in _LOGIN:
        raise Denied(
            f"clickhouse.credentialsPath: {answer.where} does not let this login: {answer.text}",
            FORBIDDEN,
        )
    if code in UNKNOWN_TABLE:
        raise SinkError(f"clickhouse.table: {answer.where} answers: {answer.text}")
    raise _wrong(answer)


def _wrong(answer: Answer) -> SinkError:
    return SinkError(f"clickhouse.url: {answer.where} answers {answer.status}: {answer.text}")


def _name(answer: Answer, code: int) -> str:
    """The error's own name, which stands behind its sentence."""
    names = _NAME.findall(answer.body.decode(errors="replace"))
    return names[-1] if names else f"Code{code}"
