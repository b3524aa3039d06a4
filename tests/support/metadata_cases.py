"""Arbitrary changes for hypothesis, a quick disk, and what must hold for every state."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, user_changes
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry
from iggy_broker.metadata.model import Defaults, State
from iggy_broker.storage.disk import RealDisk, RealFile
from iggy_wire.options import make_options

NAMES = st.sampled_from(["a", "b", "c", "0", "1", "żółć"])
REFERENCES = st.one_of(st.integers(0, 3), NAMES)
COUNTS = st.integers(0, 4)
HASHES = st.sampled_from(["hash of one", "hash of two", "hash of three"])

CHANGES: st.SearchStrategy[AnyChange] = st.one_of(
    st.builds(changes.CreateStream, NAMES),
    st.builds(changes.UpdateStream, REFERENCES, NAMES),
    st.builds(changes.DeleteStream, REFERENCES),
    st.builds(changes.PurgeStream, REFERENCES),
    st.builds(
        changes.CreateTopic,
        REFERENCES,
        NAMES,
        COUNTS,
        st.sampled_from([(), make_options({"durability": "persisted"})]),
    ),
    st.builds(changes.SettleDefaults, st.builds(Defaults, COUNTS, COUNTS)),
    st.builds(
        changes.UpdateTopic,
        REFERENCES,
        REFERENCES,
        NAMES,
        st.sampled_from([(), make_options({"max_topic_size": 1 << 30})]),
    ),
    st.builds(changes.DeleteTopic, REFERENCES, REFERENCES),
    st.builds(changes.PurgeTopic, REFERENCES, REFERENCES),
    st.builds(changes.CreatePartitions, REFERENCES, REFERENCES, COUNTS),
    st.builds(changes.DeletePartitions, REFERENCES, REFERENCES, COUNTS),
    st.builds(changes.CreateGroup, REFERENCES, REFERENCES, NAMES),
    st.builds(changes.DeleteGroup, REFERENCES, REFERENCES, REFERENCES),
    st.builds(user_changes.CreateUser, NAMES, HASHES, st.booleans(), st.just(b"")),
    st.builds(user_changes.UpdateUser, REFERENCES, st.none() | NAMES, st.none() | st.booleans()),
    st.builds(user_changes.DeleteUser, REFERENCES),
    st.builds(user_changes.SetPassword, REFERENCES, HASHES, HASHES),
    st.builds(user_changes.CreateToken, NAMES, HASHES, st.integers(0, 5), st.integers(1, 3)),
    st.builds(user_changes.DeleteToken, NAMES),
    st.just(user_changes.DropExpiredTokens()),
)
# Mostly things are made, so that the rest finds something.
HISTORIES = st.lists(
    st.one_of(
        st.builds(changes.CreateStream, NAMES),
        st.builds(changes.CreateTopic, st.integers(0, 2), NAMES, COUNTS),
        CHANGES,
    ),
    max_size=40,
)


def accepted_entries(
    history: Sequence[AnyChange], state: State | None = None, *, user_id: int = 0
) -> list[Entry]:
    """The entries that a writer journals for these changes: the accepted ones, numbered."""
    state = state or State()
    entries = []
    for change in history:
        entry = Entry(state.op + 1, 1000 + state.op, user_id, change)
        try:
            state = apply(state, entry).state
        except Reject:
            continue
        entries.append(entry)
    return entries


def replayed(entries: Sequence[Entry], state: State | None = None) -> State:
    """The state after these entries."""
    state = state or State()
    for entry in entries:
        state = apply(state, entry).state
    return state


class QuickFile(RealFile):
    """A real file whose syncs cost nothing: for tests that do not cut the power."""

    __slots__ = ()

    def sync(self) -> None:
        """Only make sure the file is there."""
        self.fileno()


class QuickDisk(RealDisk):
    """The real files of a temporary directory, without syncs."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        file = QuickFile(self, path)
        if create:
            file.create()
        return file

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        del sync
        super().write_file(path, data, sync=False)

    def sync_folder(self, path: str) -> None:
        del path
