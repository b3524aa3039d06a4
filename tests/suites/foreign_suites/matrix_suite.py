"""Official clients of every generation, over every transport: one round trip each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import CalledProcessError

from broker_process import BrokerProcess
from foreign_suites.matrix import results
from foreign_suites.matrix.clients import CLIENTS, ORDER, Client
from foreign_suites.matrix.job import Transport
from foreign_suites.matrix.run import broker, round_trip
from foreign_suites.results import Outcome, Result

NAME = "matrix"
TITLE = "a round trip of each client over each transport"
CELLS = "cells.json"  # in the folder of the run


def missing() -> str | None:
    """Some client can always be run."""
    return None


def run(folder: Path, known: Mapping[str, str], *, keyword: str | None) -> list[Result]:
    """Run the cells whose name has the keyword, and leave what they came to in `CELLS`."""
    del known
    cells: dict[str, results.Cell] = {}
    found: list[Result] = []
    with ExitStack() as stack:
        brokers = {
            is_tls: stack.enter_context(broker(folder / f"broker-{is_tls}", is_tls=is_tls))
            for is_tls in (False, True)
        }
        for client in CLIENTS:
            wanted = [one for one in client.transports if (keyword or "") in client.cell(one)]
            reason = client.program.missing() if wanted else None
            if reason:
                found += [Result(client.cell(one), Outcome.SKIPPED, reason) for one in wanted]
            elif wanted:
                for name, cell in _cells(client, wanted, brokers, folder):
                    cells[name] = cell
                    outcome = Outcome.FAILED if cell.problem else Outcome.PASSED
                    found.append(Result(name, outcome, cell.problem))
    results.write(folder / CELLS, cells, ORDER)
    return found


def _cells(
    client: Client,
    transports: list[Transport],
    brokers: Mapping[bool, BrokerProcess],
    folder: Path,
) -> Iterator[tuple[str, results.Cell]]:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    log = folder / f"{client.name}-{client.version}"
    try:
        command = client.program.built(client.version, Path(f"{log}-build.txt"))
    except CalledProcessError as error:
        problem = f"it could not be built, exit code {error.returncode}"
        for transport in transports:
            yield client.cell(transport), results.Cell(today, problem, frozenset())
        return
    for transport in transports:
        to = brokers[transport.is_tls]
        problem, lacks = round_trip(command, to, transport, Path(f"{log}-{transport}.txt"))
        yield client.cell(transport), results.Cell(today, problem, lacks)
