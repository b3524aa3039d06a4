"""The released command line `iggy`, one command after the other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from foreign_suites import cargo
from foreign_suites.broker import PASSWORD, TCP_PORT, USERNAME, default_broker, health
from foreign_suites.results import Outcome, Result

NAME = "cli"
VERSION = "0.14.0"
TITLE = f"the program of the crate iggy-cli {VERSION}"
COMMAND_S_MAX = 30.0
ROOT = ("--username", USERNAME, "--password", PASSWORD)
TOKEN_STEP = "make a token"
missing = cargo.missing


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and what it must and must not print.

    `{token}` stands for the token that was made. `is_refused` None: it may end in any way.
    """

    name: str
    command: str
    says: tuple[str, ...] = ()
    says_not: tuple[str, ...] = ()
    is_refused: bool | None = False
    login: tuple[str, ...] = ROOT


_ADA = ("--username", "ada", "--password", "secret-of-ada")
_WRONG = ("--username", "iggy", "--password", "wrong-password")
STEPS = (
    Step("ping", "ping"),
    Step("login with a wrong password", "me", is_refused=True, login=_WRONG),
    Step("me", "me", ("TCP",)),
    Step("create a stream", "stream create shop"),
    Step("create it twice", "stream create shop", is_refused=True),
    Step("create a topic", "topic create shop orders 2 none", ("orders",)),
    Step("list streams", "stream list", ("shop",)),
    Step("get the stream", "stream get shop", ("shop",)),
    Step("list topics", "topic list shop", ("orders",)),
    Step("get the topic", "topic get shop orders", ("orders",)),
    Step("options of topics", "options topic", ("durability", "segment_size")),
    Step("update the topic", "topic update shop orders orders none unlimited 7days"),
    Step("send", "message send --partition-id 0 shop orders first second"),
    Step("send with headers", "message send -p 0 -H key:string:header-value shop orders third"),
    Step("send by key", "message send --message-key customer shop orders fourth"),
    Step(
        "poll",
        "message poll --consumer 1 --message-count 3 --first --show-headers shop orders 0",
        ("first", "second", "third", "header-value"),
    ),
    Step("poll from an offset", "message poll -c 1 -o 2 shop orders 0", ("third",)),
    Step("store an offset", "consumer-offset set reader shop orders 0 1"),
    Step("get the offset", "consumer-offset get reader shop orders 0", ("1",)),
    Step("create a group", "consumer-group create shop orders workers", ("workers",)),
    Step("list groups", "consumer-group list shop orders", ("workers",)),
    Step("get the group", "consumer-group get shop orders workers", ("workers",)),
    Step("delete the group", "consumer-group delete shop orders workers"),
    Step("create a user", "user create ada secret-of-ada -g r_str,p_msg", ("ada",)),
    Step("list users", "user list", ("iggy", "ada")),
    Step("get the user", "user get ada", ("ada", "Read Streams")),
    Step("the user reads", "stream list", ("shop",), login=_ADA),
    Step("the user may not create", "stream create hers", is_refused=True, login=_ADA),
    Step("permissions", "user permissions ada -g m_str,r_str"),
    Step("the user may create now", "stream create hers", login=_ADA),
    Step("delete the user's stream", "stream delete hers"),
    Step("name", "user name ada lovelace"),
    Step("password", "user password lovelace secret-of-ada another-secret"),
    Step("the old password is refused", "me", is_refused=True, login=_ADA),
    Step("status", "user status lovelace inactive"),
    Step("delete the user", "user delete lovelace"),
    Step(TOKEN_STEP, "--quiet pat create robot 1day"),
    Step("list tokens", "pat list", ("robot",)),
    Step("log in by token", "stream list", ("shop",), login=("--token", "{token}")),
    # Where no desktop keeps secrets, the program deletes the token and then fails to forget it.
    Step("delete the token", "pat delete robot", is_refused=None),
    Step("list no token", "pat list", says_not=("robot",)),
    Step("the deleted token", "stream list", is_refused=True, login=("--token", "{token}")),
    Step("stats", "stats", ("Streams Count", "Message Count")),
    Step("list clients", "client list", ("TCP",)),
    Step("cluster", "cluster metadata", (str(TCP_PORT),)),
    Step("add partitions", "partition create shop orders 2"),
    Step("remove partitions", "partition delete shop orders 2"),
    Step("delete segments", "segment delete shop orders 0 1"),
    Step("purge the topic", "topic purge shop orders"),
    Step("snapshot", "snapshot --compression deflated --snapshot-types server_config"),
    Step("delete the topic", "topic delete shop orders"),
    Step("delete the stream", "stream delete shop"),
    Step("delete it twice", "stream delete shop", is_refused=True),
)


def run(folder: Path, known: Mapping[str, str], *, keyword: str | None) -> list[Result]:
    """Install the program if it is not there, and run the steps. They need each other."""
    del known
    program = cargo.installed(VERSION, folder / "build.txt")
    with default_broker(folder) as broker:
        found = list(_run(program, folder))
    found += health(broker)
    return [one for one in found if keyword is None or keyword in one.test]


def _run(program: Path, folder: Path) -> Iterator[Result]:
    token = ""
    for step in STEPS:
        words = [word.replace("{token}", token) for word in (*step.login, *step.command.split())]
        code, text = _command([str(program), *words], folder)
        if step.name == TOKEN_STEP:
            token = text.strip()
        wrong = problem(step, code, text)
        yield Result(step.name, Outcome.FAILED if wrong else Outcome.PASSED, wrong)


def problem(step: Step, code: int, text: str) -> str:
    """What is wrong with the answer, or nothing."""
    shown = " ".join(text.split())
    if step.is_refused not in (None, code != 0):
        return f"exit code {code}: {shown}"
    unsaid = [f"{words!r} is not in: {shown}" for words in step.says if words not in text]
    unsaid += [f"{words!r} is in: {shown}" for words in step.says_not if words in text]
    return unsaid[0] if unsaid else ""


def _command(command: list[str], folder: Path) -> tuple[int, str]:
    # The program keeps settings in its home folder: an empty one, for this run.
    others = {name: value for name, value in os.environ.items() if not name.startswith("IGGY_")}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=others | {"IGGY_HOME": str(folder / "home"), "RUST_BACKTRACE": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_S_MAX,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end in {COMMAND_S_MAX:.0f} s"
    with (folder / "commands.txt").open("a") as log:
        log.write(f"$ iggy {' '.join(command[1:])}\n{done.stdout}\n")
    # It warns on standard output, before what was asked for, that no desktop keeps secrets.
    lines = [line for line in done.stdout.splitlines() if " WARN" not in line]
    return done.returncode, "\n".join(lines)
