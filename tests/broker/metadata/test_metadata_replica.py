"""Writer and followers in one process: one order, everyone has it before the caller knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from iggy_broker.clock import SystemClock
from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import changes, journal, replica, user_changes
from iggy_broker.metadata.changes import Result
from iggy_broker.metadata.model import Caller, Placed, State
from iggy_broker.metadata.replica import Follower, Replica, Writer
from iggy_broker.storage.disk import StorageFailed
from iggy_wire.errors import ErrorCode
from metadata_cases import QuickDisk


class Recorder:
    """A host that writes down what it is told, and what requests could see at that moment."""

    def __init__(self, log: list[str]) -> None:
        self.replica: Replica | None = None
        self.told: list[tuple[str, list[int], bool]] = []
        self.log = log

    async def open_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        await self._note("open", state, placed)

    async def purge_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        await self._note("purge", state, placed)

    async def remove_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        await self._note("remove", state, placed)

    async def _note(self, what: str, state: State, placed: Sequence[Placed]) -> None:
        await asyncio.sleep(0)
        assert self.replica is not None
        visible = self.replica.state is state
        self.log.append(what)
        self.told.append((what, [one.partition.id for one in placed], visible))


class Shards:
    """One writer and some followers; records reach each follower in order, at its own pace."""

    def __init__(self, root: Path, *, followers: int = 2) -> None:
        recovered = journal.load(str(root), disk=QuickDisk(), entries_max=1000)
        self.log: list[str] = []  # of all shards
        self.hosts = [Recorder(self.log) for _ in range(followers + 1)]
        self.writer = Writer(
            recovered.state,
            host=self.hosts[0],
            journal=recovered.journal,
            links=self,
            clock=SystemClock(),
        )
        self.followers = [
            Follower(recovered.state, host=host, links=self) for host in self.hosts[1:]
        ]
        self.journal = recovered.journal
        for host, one in zip(self.hosts, self.all, strict=True):
            host.replica = one
        self.records: list[bytes] = []

    @property
    def all(self) -> list[Replica]:
        return [self.writer, *self.followers]

    async def broadcast_metadata(self, record: bytes) -> None:
        self.records.append(record)
        for turns, follower in enumerate(self.followers):
            for _ in range(turns * 20):
                await asyncio.sleep(0)
            await follower.follow(record)

    async def request_metadata(self, request: bytes) -> bytes:
        return await self.writer.serve(request)


def with_shards(root: Path, work: Callable[[Shards], Awaitable[None]], followers: int = 2) -> None:
    async def main() -> None:
        shards = Shards(root, followers=followers)
        running = asyncio.create_task(shards.writer.run())
        try:
            await work(shards)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            shards.journal.close()

    asyncio.run(main())


def test_an_answer_means_every_shard_has_the_change(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        for number, one in enumerate(shards.all):
            result = await one.submit(changes.CreateStream(f"s{number}"))

            assert result.stream is not None
            assert result.stream.id == number
            assert {other.state.op for other in shards.all} == {result.op} == {number + 1}

    with_shards(tmp_path, work)


def test_a_journal_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(shards: Shards) -> None:
        await shards.writer.submit(changes.CreateStream("before"))
        before = shards.writer.journal_figures
        monkeypatch.setattr(journal, "JOURNAL_BYTES_HARD_MAX", before.size_bytes)
        for one in shards.all:
            with pytest.raises(Deny, match="metadata cannot be written"):
                await one.submit(changes.CreateStream("refused"))

        assert shards.writer.journal_figures == before
        assert (before.entries, before.waiting) == (1, 0)
        assert before.oldest_us > 0

    with_shards(tmp_path, work)

    assert [vars(record)["event"] for record in caplog.records] == ["changes_refused"] * 3


def test_many_at_once_from_everywhere_end_in_one_order(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        made = [
            one.submit(changes.CreateStream(f"{number}-{n}"))
            for n in range(50)
            for number, one in enumerate(shards.all)
        ]
        results = await asyncio.gather(*made)

        assert sorted(result.op for result in results) == list(range(1, 151))
        assert len({id(one.state) for one in shards.all}) == 3
        assert all(one.state == shards.writer.state for one in shards.all)
        assert len(shards.records) < 20, "those that wait share a record and its sync"

    with_shards(tmp_path, work)
    recovered = journal.load(str(tmp_path), disk=QuickDisk(), entries_max=1000)
    assert len(recovered.state.streams) == 150


def test_a_refusal_is_the_same_from_every_shard_and_is_not_journaled(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        await shards.writer.submit(changes.CreateStream("s"))

        for one in shards.all:
            with pytest.raises(Reject) as caught:
                await one.submit(changes.CreateStream("s"))
            assert caught.value.code is ErrorCode.STREAM_NAME_ALREADY_EXISTS
            assert caught.value.detail == "stream 's'"
            assert not isinstance(caught.value, Deny)
        assert len(shards.records) == 1

    with_shards(tmp_path, work)


def test_of_two_wishes_for_one_name_one_comes_true(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        outcomes = await asyncio.gather(
            *(one.submit(changes.CreateStream("s")) for one in shards.all), return_exceptions=True
        )

        assert [type(outcome) for outcome in outcomes] == [Result, Reject, Reject]

    with_shards(tmp_path, work)


def test_a_waiting_change_is_not_made_for_whoever_has_the_id_next(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        await shards.writer.submit(changes.CreateRoot("root", "hash"))
        made = await shards.writer.submit(user_changes.CreateUser("alice", "hash"))
        assert made.user is not None
        alice = Caller(made.user.id, made.user.created_at_us)
        asked = [
            shards.writer.submit(user_changes.DeleteUser("alice")),
            shards.writer.submit(user_changes.CreateUser("bob", "hash")),
            *(
                one.submit(user_changes.CreateToken("ci", f"{n}", 0, 10), caller=alice)
                for n, one in enumerate(shards.all)
            ),
        ]

        _, created, *refused = await asyncio.gather(*asked, return_exceptions=True)

        assert isinstance(created, Result) and created.user is not None
        assert created.user.id == alice.user_id
        assert shards.writer.state.users[alice.user_id].tokens == {}
        for one in refused:
            assert isinstance(one, Reject) and one.code is ErrorCode.UNAUTHORIZED

    with_shards(tmp_path, work)


def test_partitions_open_before_they_are_seen_and_go_after(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        one = shards.followers[0]
        await one.submit(changes.CreateStream("s"))
        await one.submit(changes.CreateTopic("s", "t", 2))
        await one.submit(changes.PurgeStream("s"))
        await one.submit(changes.DeletePartitions("s", "t", 1))
        await one.submit(changes.DeleteStream("s"))

        for host in shards.hosts:
            assert host.told == [
                ("open", [0, 1], False),
                ("purge", [0, 1], False),
                ("remove", [1], True),
                ("remove", [0], True),
            ]

    with_shards(tmp_path, work)


def test_a_slot_is_not_given_again_before_every_shard_let_go_of_it(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        await shards.writer.submit(changes.CreateStream("s"))
        await shards.writer.submit(changes.CreateTopic("s", "t", 1))
        shards.log.clear()
        made = await asyncio.gather(
            shards.writer.submit(changes.DeleteTopic("s", "t")),
            shards.writer.submit(changes.CreateTopic("s", "t", 1)),
        )

        assert made[1].topic is not None
        assert made[1].topic.partitions[0].slot == 0
        assert shards.log == ["remove"] * 3 + ["open"] * 3

    with_shards(tmp_path, work)


def test_too_many_waiting_changes_are_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "WAITING_CHANGES_MAX", 2)

    async def work(shards: Shards) -> None:
        made = [shards.writer.submit(changes.CreateStream(f"s{n}")) for n in range(3)]
        outcomes = await asyncio.gather(*made, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [Result, Result, Deny]
        assert len(shards.writer.state.streams) == 2

    with_shards(tmp_path, work)


def test_a_full_disk_denies_and_nothing_changes(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "JOURNAL_BYTES_HARD_MAX", 0)
            with pytest.raises(Deny, match="metadata cannot be written"):
                await shards.followers[0].submit(changes.CreateStream("s"))

        assert all(one.state == State() for one in shards.all)
        result = await shards.followers[0].submit(changes.CreateStream("s"))
        assert result.op == 1

    with_shards(tmp_path, work)


def test_a_caller_that_gave_up_changes_nothing_for_the_others(tmp_path: Path) -> None:
    async def work(shards: Shards) -> None:
        first = asyncio.create_task(shards.writer.submit(changes.CreateStream("a")))
        second = asyncio.create_task(shards.writer.submit(changes.CreateStream("b")))
        await asyncio.sleep(0)
        first.cancel()

        result = await second
        assert result.stream is not None
        assert shards.writer.state.stream_names == {"a": 0, "b": 1}

    with_shards(tmp_path, work)


def test_a_failed_sync_ends_the_writer_and_everyone_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise OSError(5, "Input/output error")

    async def main() -> None:
        shards = Shards(tmp_path)
        monkeypatch.setattr("metadata_cases.QuickFile.sync", broken)
        running = asyncio.create_task(shards.writer.run())
        waiting = asyncio.create_task(shards.writer.submit(changes.CreateStream("s")))

        with pytest.raises(StorageFailed):
            await running
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        with pytest.raises(StorageFailed):
            await shards.writer.submit(changes.CreateStream("t"))
        assert all(one.state == State() for one in shards.all)
        shards.journal.close()

    asyncio.run(main())
