"""What the supervisor does with metadata before it forks: recover it; a new one gets a root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iggy_broker.clock import Clock
from iggy_broker.config_sections import Config
from iggy_broker.logs import Note
from iggy_broker.metadata import credentials, journal
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, CreateRoot, Entry, SettleDefaults
from iggy_broker.metadata.journal import Journal
from iggy_broker.metadata.model import ROOT_USER_ID, State
from iggy_broker.metadata.options import defaults_of, node_settings
from iggy_broker.metadata.recreate import recreate, tell_unknown
from iggy_broker.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class Opened:
    """Recovered metadata with a root user, and the journal to go on with."""

    state: State
    journal: Journal
    notes: tuple[str, ...]  # what recovery had to decide, for the log
    first_password: str | None  # made up for root just now: show it once, it is stored nowhere


def open_metadata(
    config: Config, *, disk: Disk, clock: Clock, warn: Callable[[str], None]
) -> Opened:
    """Recover the metadata in the data directory of `config`; a new one gets a root user.

    The journal holds no descriptor and no thread when this returns, so it may cross a fork.
    Raises `snapshot.MetadataDamaged`, or OSError when the files cannot be read or written. Root
    credentials of the configuration count only when root is made (as in the original).
    """
    root = str(config.system.path)
    recreated = []
    if config.system.recovery.recreate_missing_state:
        recreated = recreate(disk, root, now_us=clock.now_us())
    recovered = journal.load(root, disk=disk, entries_max=config.metadata.journal_slots, warn=warn)
    state, first_password = recovered.state, None
    if not recreated:
        recreated = tell_unknown(disk, root, state)
    notes = [*recreated, *recovered.notes, *_ignored_credentials(config, state)]
    due: list[AnyChange] = []
    if ROOT_USER_ID not in state.users:
        password = config.root.password or credentials.random_password()
        first_password = None if config.root.password else password
        due.append(CreateRoot(config.root.username, credentials.hash_password(password)))
    if any(
        topic.defaults is None
        for stream in state.streams.values()
        for topic in stream.topics.values()
    ):
        due.append(SettleDefaults(defaults_of(node_settings(config))))
    for change in due:
        entry = Entry(state.op + 1, clock.now_us(), ROOT_USER_ID, change)
        state = apply(state, entry).state
        recovered.journal.append_now(state, [entry])
    if due:
        recovered.journal.close()
    return Opened(state, recovered.journal, tuple(notes), first_password)


def _ignored_credentials(config: Config, state: State) -> list[str]:
    """What to say when somebody changed the variables and expects another root user."""
    root, given = state.users.get(ROOT_USER_ID), config.root
    if root is None or not given.password:
        return []
    if root.name == given.username and credentials.verify(root.password_hash, given.password):
        return []
    why = (
        "IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD are not those of root, who exists already: they "
        "count on the first start only; log in as before and change them there"
    )
    return [Note("credentials_ignored", why)]
