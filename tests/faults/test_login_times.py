"""What a refused login tells by its time: nothing of whether there is such a user."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean

import pytest

from broker_process import PASSWORD, USERNAME, running_broker
from http_client import HttpClient, http_client
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from raw_frames import RawClient

LOGINS = 200
DIFFERENCE_MAX = 0.2  # of the larger mean


def refused_over_tcp(raw: RawClient, name: str, word: str) -> None:
    header = raw.login(name, word)
    assert isinstance(header, EvictionHeader)
    assert header.reason == EvictionReason.INVALID_CREDENTIALS


def refused_over_http(http: HttpClient, name: str, word: str) -> None:
    answer = http.ask("POST", "/users/login", {"username": name, "password": word})
    assert answer.error == (400, ErrorCode.INVALID_CREDENTIALS)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("transport", ["tcp", "http"])
def test_an_unknown_user_takes_as_long_as_a_wrong_password(
    tmp_path: Path, measured: Callable[[str], None], transport: str
) -> None:
    taken_s: dict[str, list[float]] = {"unknown user": [], "wrong password": [], "too long": []}
    with (
        running_broker(tmp_path, transports=["http"]) as broker,
        RawClient(broker.tcp_port) as raw,
        http_client(broker, log_in=False) as http,
    ):
        over = {"tcp": partial(refused_over_tcp, raw), "http": partial(refused_over_http, http)}
        for number in range(LOGINS):  # by turns, so that a busy machine slows all down
            for kind, name, word in (
                ("unknown user", f"nobody-{number}", PASSWORD),
                ("wrong password", USERNAME, f"wrong-{number}"),
                ("too long", USERNAME, "x" * 200),
            ):
                began = time.perf_counter()
                over[transport](name, word)
                taken_s[kind].append(time.perf_counter() - began)
        http.log_in()
        header = raw.login()
        assert isinstance(header, ReplyHeader) and header.status == 0, "the right one, at once"
    means_s = {kind: mean(sorted(times)[: LOGINS * 9 // 10]) for kind, times in taken_s.items()}
    measured(", ".join(f"{kind} {time_s * 1000:.1f} ms" for kind, time_s in means_s.items()))
    assert max(means_s.values()) - min(means_s.values()) < DIFFERENCE_MAX * max(means_s.values())
