"""Kills at random moments under the official client: four producers and a group of two.

Nothing acknowledged is lost, no offset is given twice, and the group goes on where it was.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_process import BrokerProcess, wait_for_exit
from group_cases import members, wait_for
from iggy_client import Client
from load_history import History, Load, make_topic, read_all
from official_load import STREAM

PRODUCERS = 4
MEMBERS = 2
WHOM = ("all", "supervisor", "shard")
MOMENTS = ("under load", "under load", "starting", "stopping")
STARTING_S = 0.8  # a start takes about as long: a kill within may hit any step of it
LOADED_S = 0.3
STOPPING_S = 0.1
BEFORE_KILL = 200  # messages acknowledged in each life before a kill under load
WITHIN_S = 30.0  # all must go on, on a busy machine
EXIT_FAILED = 70


@dataclass(frozen=True)
class Kill:
    """When which processes of a broker are killed."""

    whom: str
    moment: str
    delay: float  # a part of the time within which that moment lies
    shard: float  # which one, as a part of them all

    @classmethod
    def by(cls, chance: random.Random) -> Kill:
        return cls(chance.choice(WHOM), chance.choice(MOMENTS), chance.random(), chance.random())

    def __str__(self) -> str:
        return f"{self.whom} {self.moment}"

    def strike(self, broker: BrokerProcess) -> None:
        """SIGKILL all processes, or one of which the others must end."""
        process = broker.process
        assert process is not None
        shards = broker.shard_pids()
        if self.whom == "all":
            broker.kill()
        elif self.whom == "shard" and shards:
            with suppress(ProcessLookupError):  # it may just have stopped
                os.kill(shards[int(self.shard * len(shards))], signal.SIGKILL)
            code = wait_for_exit(process)
            assert code == EXIT_FAILED or (code == 0 and self.moment == "stopping")
        else:  # the supervisor, also while there is no shard
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def wait_until_resumed(history: History) -> None:
    """Until messages were acknowledged and every member has read some."""
    since = history.mark()
    wait_for(
        lambda: history.has_gone_on(since, messages=BEFORE_KILL, members=MEMBERS), within_s=WITHIN_S
    )


def live_and_die(broker: BrokerProcess, history: History, kill: Kill) -> None:
    """One life of the broker."""
    if kill.moment == "starting":
        broker.launch()
        time.sleep(kill.delay * STARTING_S)
    else:
        with broker.start().client() as admin:
            history.look_at_offsets(admin)
        wait_until_resumed(history)
        time.sleep(kill.delay * LOADED_S)
    if kill.moment == "stopping":
        os.kill(broker.pid, signal.SIGTERM)
        time.sleep(kill.delay * STOPPING_S)
    kill.strike(broker)


def finish(broker: BrokerProcess, load: Load, history: History) -> None:
    """The last life: all goes on, everything is read, and then everything is compared."""
    with broker.start().client() as admin:
        history.look_at_offsets(admin)
        wait_until_resumed(history)
        wait_for(lambda: all(map(len, shares(admin))), within_s=WITHIN_S)
        load.stop("producer")
        wait_for(history.is_all_read, within_s=WITHIN_S)
        load.stop("member")
        history.look_at_offsets(admin)
        history.compare(read_all(admin))
    assert broker.stop() == 0


def shares(admin: Client) -> list[tuple[int, ...]]:
    """The partitions of each member, of whom there must be two."""
    found = list(members(admin, STREAM).values())
    return found if len(found) == MEMBERS else [()]


def kill_again_and_again(
    folder: Path, durability: str, kills: int, measured: Callable[[str], None]
) -> None:
    chance = random.Random(f"{durability} {kills}")
    plan = [Kill.by(chance) for _ in range(kills)]
    notes = folder / "notes"
    notes.mkdir()
    broker = BrokerProcess(folder, shards=2)
    load = Load(broker, notes)
    history = History(load)
    try:
        with broker.start().client() as admin:
            make_topic(admin, durability)
        assert broker.stop() == 0
        load.start("producer", PRODUCERS)
        load.start("member", MEMBERS)
        for kill in plan:
            live_and_die(broker, history, kill)
        finish(broker, load, history)
    finally:
        load.end()
        broker.end()
    done = Counter(map(str, plan))
    lives_under_load = sum(kill.moment != "starting" for kill in plan) + 1
    assert len(history.acknowledged) >= lives_under_load * BEFORE_KILL
    asked, handed = history.asked.total(), sum(map(len, history.reads.values()))
    measured(
        f"{kills} kills ({', '.join(f'{count} {what}' for what, count in sorted(done.items()))}): "
        f"{len(history.acknowledged)} messages acknowledged, none lost; "
        f"{asked - len(history.asked)} of {asked} sends repeated; "
        f"{handed} messages handed out, {len(history.read)} different ones"
    )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("durability", ["replicated", "persisted"])
def test_five_kills_lose_nothing_and_the_group_resumes(
    tmp_path: Path, durability: str, measured: Callable[[str], None]
) -> None:
    kill_again_and_again(tmp_path, durability, 5, measured)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("durability", ["replicated", "persisted"])
def test_fifty_kills_lose_nothing_and_the_group_resumes(
    tmp_path: Path, durability: str, measured: Callable[[str], None]
) -> None:
    kill_again_and_again(tmp_path, durability, 50, measured)
