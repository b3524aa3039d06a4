"""The removal of expired tokens, also when the journal has no room for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from iggy_broker.net.handlers.tokens import drop_expired_tokens, expired_count
from iggy_wire.requests import CreatePersonalAccessToken, CreateStream
from one_shard import Caller, Refused, with_broker


async def until(condition: Callable[[], bool]) -> None:
    """The test's own time limit ends it if it never holds."""
    while True:
        if condition():
            return
        await asyncio.sleep(0)


def tokens_of_root(caller: Caller) -> int:
    return len(caller.services.replica.state.users[0].tokens)


def test_a_journal_without_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(caller: Caller) -> None:
        await caller.body(CreatePersonalAccessToken("soon", 1))
        await caller.body(CreatePersonalAccessToken("never"))
        replica, clock = caller.services.replica, caller.services.clock
        await until(lambda: expired_count(replica.state, clock.now_us()) == 1)
        refusals = 0

        def no_room(self: object, data: bytes, position: int) -> None:
            nonlocal refusals
            refusals += 1
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("metadata_cases.QuickFile.write", no_room)
            cleaner = asyncio.create_task(drop_expired_tokens(caller.services, interval_us=1))
            await until(lambda: refusals >= 3 or cleaner.done())
            assert tokens_of_root(caller) == 2
            with pytest.raises(Refused):
                await caller.body(CreateStream("refused"))
        await until(lambda: tokens_of_root(caller) == 1 or cleaner.done())
        assert not cleaner.done()
        cleaner.cancel()
        assert tokens_of_root(caller) == 1

    with_broker(tmp_path, work)
