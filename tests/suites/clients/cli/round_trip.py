"""A round trip of the official command line `iggy`, one process for each request.

`IGGY_PROGRAM` is its path; what to do comes in the environment, as for all clients. The program
cannot join a group: it reads each partition as a single consumer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from foreign_suites.matrix.job import read_of

JOB = os.environ
PLACE = (JOB["STREAM"], JOB["TOPIC"])
PARTITIONS, KEYS, PER_KEY = int(JOB["PARTITIONS"]), int(JOB["KEYS"]), int(JOB["PER_KEY"])
BATCH = 500
COMMAND_S_MAX = 30.0
_ADDRESSES = {"tcp": "tcp-server-address", "quic": "quic-server-address",
              "websocket": "websocket-server-address", "http": "http-api-url"}  # fmt: skip


def connection() -> list[str]:
    transport = JOB["TRANSPORT"]
    address = JOB["ADDRESS"] if transport != "http" else f"http://{JOB['ADDRESS']}"
    words = ["--transport", "ws" if transport == "websocket" else transport]
    words += [f"--{_ADDRESSES[transport]}", address]
    return [*words, "--username", JOB["USERNAME"], "--password", JOB["PASSWORD"]]


def iggy(*words: str, lines: str = "") -> str:
    """What it printed. CalledProcessError: it was refused."""
    done = subprocess.run(
        [JOB["IGGY_PROGRAM"], *connection(), *words],
        input=lines,
        capture_output=True,
        timeout=COMMAND_S_MAX,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit(1)
    return done.stdout


def rows(text: str) -> list[list[str]]:
    """The cells of a printed table, line by line."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def polled(partition: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    options = ("--consumer", JOB["GROUP"], "--message-count", str(BATCH), "--next", "--auto-commit")
    while True:
        text = iggy("message", "poll", *options, *PLACE, str(partition))
        more = [(int(row[0]), row[-1].encode()) for row in rows(text) if row[0].isdecimal()]
        if not more:
            return found
        found += more


def main() -> None:
    iggy("stream", "create", JOB["STREAM"])
    iggy("topic", "create", *PLACE, str(PARTITIONS), "none")
    for key in range(KEYS):
        lines = "".join(f"k{key} {number}\n" for number in range(PER_KEY))
        iggy("message", "send", "--message-key", f"k{key}", *PLACE, lines=lines)
    read, stored = {}, {}
    for partition in range(PARTITIONS):
        one = read_of(polled(partition))
        where = (JOB["GROUP"], *PLACE, str(partition))
        iggy("consumer-offset", "set", *where, str(one.last))
        (row,) = [row for row in rows(iggy("consumer-offset", "get", *where))
                  if row[0] == "Stored offset"]  # fmt: skip
        read[partition] = {"count": one.count, "first": one.first, "last": one.last,
                           "digest": one.digest}  # fmt: skip
        stored[partition] = int(row[1])
    sys.stdout.write(json.dumps({"read": read, "stored": stored, "lacks": ["group"]}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    iggy("stream", "delete", JOB["STREAM"])


main()
