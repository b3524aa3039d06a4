"""A partition on a crashing disk against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from iggy_broker.errors import Reject
from iggy_broker.storage import layout
from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.cutting import DecisionKind
from iggy_wire.sealing import Keyring
from simulated_disk import SimulatedDisk
from storage_cases import FIRST, LAST, NEXT, World, from_offset, from_time, read, simulated_world

ONE_KEY, OTHER_KEY = b"1" * 32, b"2" * 32
NO_WRITING = Keyring([ONE_KEY, OTHER_KEY])
KEYS = [ConsumerKey(1, 0), ConsumerKey(1, 9), ConsumerKey(2, 0)]
KEYRINGS = [NO_WRITING, Keyring([OTHER_KEY], key=ONE_KEY), Keyring([ONE_KEY], key=OTHER_KEY)]
HARMLESS = {DecisionKind.TAIL_CUT, DecisionKind.SEGMENT_SET_ASIDE, DecisionKind.INDEX_REBUILT}


class PartitionMachine(RuleBasedStateMachine):
    world: World

    @initialize(
        seed=st.integers(0, 1 << 30), persisted=st.booleans(), keys=st.sampled_from(KEYRINGS)
    )
    def start(self, seed: int, persisted: bool, keys: Keyring) -> None:
        self.world = simulated_world(seed, keys, persisted=persisted)
        self.durable_end = 0
        self.offsets: dict[ConsumerKey, int] = {}

    @rule(
        count=st.integers(1, 40),
        payload_bytes=st.sampled_from([8, 8, 8, 300, 3000, 20_000]),
        step_us=st.sampled_from([-5, 0, 1, 1000]),
    )
    def append(self, count: int, payload_bytes: int, step_us: int) -> None:
        self.world.clock.time_us += step_us
        expected = self.world.partition.next_offset
        assert self.world.append(min(count, 100_000 // payload_bytes), payload_bytes) == expected

    @rule(count=st.integers(1, 3))
    def append_to_a_full_disk(self, count: int) -> None:
        disk = self.world.disk
        assert isinstance(disk, SimulatedDisk)
        before = self.world.partition.next_offset
        # An append first removes the marker of a clean stop, which makes room on a full disk.
        marker = disk.entries.get(f"{self.world.place.folder}/{layout.CLEAN_FILE}")
        freed = 0 if marker is None else len(marker.data)
        disk.capacity_bytes = disk.used_bytes() - freed + 100
        with pytest.raises(Reject, match="CANNOT_APPEND_MESSAGE"):
            self.world.partition.append(memoryview(self.world.batch(count)))
        disk.capacity_bytes = None
        assert self.world.partition.next_offset == before

    @rule()
    def sync(self) -> None:
        self.world.partition.sync_now()
        self.durable_end = self.world.partition.next_offset

    @rule(
        strategy=st.one_of(
            st.sampled_from([FIRST, LAST]),
            st.builds(from_offset, st.integers(0, 500)),
            st.builds(from_time, st.integers(999_900, 1_020_000)),
        ),
        count=st.integers(0, 300),
    )
    def poll(self, strategy: tuple[int, int], count: int) -> None:
        found = self.world.poll(strategy, count, bytes_max=1 << 30)  # type: ignore[arg-type]
        assert found == self.world.expected(strategy, count)  # type: ignore[arg-type]

    @rule(key=st.sampled_from(KEYS), count=st.integers(1, 20))
    def poll_next(self, key: ConsumerKey, count: int) -> None:
        start = self.offsets.get(key, -1) + 1
        polled = self.world.partition.poll(
            NEXT, count, bytes_max=1 << 20, consumer=key, auto_commit=True
        )
        assert read(polled) == self.world.expected(from_offset(start), count)
        if polled.count:
            self.offsets[key] = polled.last_offset

    @rule(key=st.sampled_from(KEYS), offset=st.integers(0, 200))
    def store_offset(self, key: ConsumerKey, offset: int) -> None:
        if offset >= self.world.partition.visible_next_offset:
            with pytest.raises(Reject, match="INVALID_OFFSET"):
                self.world.partition.store_offset(key, offset)
        else:
            self.world.partition.store_offset(key, offset)
            self.offsets[key] = offset

    @precondition(lambda self: len(self.world.partition.log.segments) > 1)
    @rule(count=st.integers(1, 3))
    def delete_segments(self, count: int) -> None:
        lowest = min(self.offsets.values(), default=None)
        gone = self.world.partition.delete_oldest_segments(count)
        first = self.world.partition.log.first_offset
        assert lowest is None or gone == 0 or first <= lowest + 1
        self.world.stored = [s for s in self.world.stored if s.offset >= first]

    @rule()
    def purge(self) -> None:
        self.world.partition.purge(self.world.partition.figures.purges + 1)
        self.world.stored = []
        self.durable_end = 0
        self.offsets = {}

    @rule(keys=st.none() | st.sampled_from(KEYRINGS))
    def clean_restart(self, keys: Keyring | None) -> None:
        self.world.keys = keys or self.world.keys
        partition = self.world.reopen()
        assert partition.recovery == ()
        self.durable_end = partition.next_offset

    @rule()
    def kill(self) -> None:
        before = self.world.partition.next_offset
        disk = self.world.disk
        assert isinstance(disk, SimulatedDisk)
        partition = self.world.restart(disk.crash(power_cut=False))
        assert partition.next_offset == before
        assert {decision.kind for decision in partition.recovery} <= {DecisionKind.INDEX_REBUILT}
        self.durable_end = partition.next_offset  # recovery syncs what it serves

    @rule()
    def power_cut(self) -> None:
        disk = self.world.disk
        assert isinstance(disk, SimulatedDisk)
        partition = self.world.restart(disk.crash(power_cut=True))
        assert {decision.kind for decision in partition.recovery} <= HARMLESS | {
            DecisionKind.FOLDER_MISSING,
            DecisionKind.LIFE_NOTED,
            DecisionKind.MARKER_DISBELIEVED,  # its removal was not durable, so it is back
        }
        assert partition.next_offset >= self.durable_end
        self.world.stored = [s for s in self.world.stored if s.offset < partition.next_offset]
        self.durable_end = partition.next_offset
        self.offsets = {
            key: offset for key in KEYS if (offset := partition.offsets.get(key)) is not None
        }
        first = partition.log.first_offset
        assert all(s.offset < first for s in self.world.stored[:0])
        assert all(offset < partition.next_offset for offset in self.offsets.values())

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "world"):
            return
        partition = self.world.partition
        assert partition.fenced == ""
        figures = partition.figures
        assert figures.messages_count == partition.next_offset - partition.log.first_offset
        assert figures.visible_next_offset == partition.visible_next_offset
        assert figures.size_bytes == sum(s.size_bytes for s in partition.log.segments)
        visible = [s for s in self.world.stored if s.offset < partition.visible_next_offset]
        if not self.dropped_may_be_back(visible):
            assert self.world.everything() == visible

    def dropped_may_be_back(self, visible: list[object]) -> bool:
        """After a power cut a removed head may stand there again; the rest must be as before."""
        found = self.world.everything()
        extra = len(found) - len(visible)
        return extra > 0 and found[extra:] == visible


TestPartition = PartitionMachine.TestCase
TestPartition.settings = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
