"""What a refused login tells by its time: nothing of whether there is such a user."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest

from broker_process import PASSWORD, USERNAME, running_broker
from iggy_wire.header import EvictionHeader, EvictionReason, ReplyHeader
from raw_frames import RawClient

LOGINS = 200
DIFFERENCE_MAX = 0.2  # of the larger mean


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_unknown_user_takes_as_long_as_a_wrong_password(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    taken_s: dict[str, list[float]] = {"unknown user": [], "wrong password": [], "too long": []}
    with running_broker(tmp_path) as broker, RawClient(broker.tcp_port) as raw:
        for number in range(LOGINS):  # by turns, so that a busy machine slows all down
            for kind, name, word in (
                ("unknown user", f"nobody-{number}", PASSWORD),
                ("wrong password", USERNAME, f"wrong-{number}"),
                ("too long", USERNAME, "x" * 200),
            ):
                began = time.perf_counter()
                header = raw.login(name, word)
                taken_s[kind].append(time.perf_counter() - began)
                assert isinstance(header, EvictionHeader)
                assert header.reason == EvictionReason.INVALID_CREDENTIALS
        header = raw.login()
        assert isinstance(header, ReplyHeader) and header.status == 0, "the right one, at once"
    means_s = {kind: mean(sorted(times)[: LOGINS * 9 // 10]) for kind, times in taken_s.items()}
    measured(", ".join(f"{kind} {time_s * 1000:.1f} ms" for kind, time_s in means_s.items()))
    assert max(means_s.values()) - min(means_s.values()) < DIFFERENCE_MAX * max(means_s.values())
