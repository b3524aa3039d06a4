"""Binding one port for several shards, and refusing one that somebody has."""

import socket

import pytest

from iggy_broker.net.listener import (
    SPARE_FILES,
    FileBudget,
    ListenError,
    bind_all,
    raise_file_limit,
)


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_all_shards_get_the_same_port() -> None:
    sockets = bind_all("127.0.0.1", 0, 3, key="tcp.address")
    try:
        assert len({sock.getsockname() for sock in sockets}) == 1
    finally:
        close(sockets)


def test_a_port_that_shares_with_others_is_refused_too() -> None:
    first = bind_all("127.0.0.1", 0, 1, key="tcp.address")
    first[0].listen()
    port = first[0].getsockname()[1]
    try:
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}.*tcp.address"):
            bind_all("127.0.0.1", port, 2, key="tcp.address")
    finally:
        close(first)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1.*monitoring\.address"):
        bind_all("192.0.2.1", 0, 1, key="monitoring.address")


def test_the_file_limit_leaves_room_for_logs() -> None:
    assert raise_file_limit().connections > 0


@pytest.mark.parametrize("limit", [64, 256, 1024, 20_000, 1 << 20])
def test_all_shares_of_the_file_limit_fit(limit: int) -> None:
    budget = FileBudget.of(limit)

    assert budget.connections >= limit // 2
    assert budget.logs > 0
    assert budget.connections + budget.logs <= limit - min(limit // 4, SPARE_FILES)
