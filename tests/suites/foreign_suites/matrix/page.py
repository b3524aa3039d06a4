"""The table of docs/compatibility.md, made from the record of what was run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from foreign_suites.matrix import results
from foreign_suites.matrix.clients import CLIENTS, LACKS, NOT_SERVED, ORDER, Client
from foreign_suites.matrix.job import Transport
from foreign_suites.matrix.results import Cell
from foreign_suites.places import SUITES

PAGE = SUITES.parents[1] / "docs" / "compatibility.md"
RECORD = SUITES / "matrix.json"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
_HEADS = {
    Transport.TCP: "TCP",
    Transport.TCP_TLS: "TCP, TLS",
    Transport.WEBSOCKET: "WebSocket",
    Transport.WEBSOCKET_TLS: "WebSocket, TLS",
    Transport.QUIC: "QUIC",
    Transport.HTTP: "HTTP",
}


class _Notes:
    """Reasons, numbered as they come; the same one has the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, *reasons: str) -> str:
        numbers = [self._numbers.setdefault(one, len(self._numbers) + 1) for one in reasons]
        return "".join(f" ({number})" for number in sorted(numbers))

    def lines(self) -> Iterator[str]:
        for reason, number in self._numbers.items():
            yield f"{number}. {reason}"


def table(cells: Mapping[str, Cell]) -> str:
    """A row for each version of a client, then the notes."""
    notes = _Notes()
    heads = ["client", "version", "protocol", *_HEADS.values(), "run"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for client in CLIENTS:
        found = [_cell(client, transport, cells, notes) for transport in _HEADS]
        dates = {
            cells[name].date for one in client.transports if (name := client.cell(one)) in cells
        }
        lines.append(
            _row([client.title, client.version, client.protocol, *found, max(dates, default="")])
        )
    for title, reason in NOT_SERVED.items():
        none = "no" + notes.mark(f"not run: {reason}")
        lines.append(_row([title, "", "", *[none] * len(_HEADS), ""]))
    return "\n".join([*lines, "", *notes.lines()])


def _cell(client: Client, transport: Transport, cells: Mapping[str, Cell], notes: _Notes) -> str:
    if transport in client.without:
        return "–" + notes.mark(client.without[transport])
    cell = cells.get(client.cell(transport))
    if cell is None:
        return "not run"
    if cell.problem:
        return "**no**" + notes.mark(f"it says: {cell.problem}")
    return "yes" + notes.mark(*(LACKS[lack] for lack in sorted(cell.lacks)))


def _row(words: list[str]) -> str:
    return "| " + " | ".join(words) + " |"


def page_with_table(page: str, cells: Mapping[str, Cell]) -> str:
    """The page with the table between its marks brought up to date."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(cells)}\n{END}{after}"


def record(run: Path) -> None:
    """Take the cells that a run left over into the record, and the record into the page."""
    cells = results.read(RECORD) if RECORD.exists() else {}
    results.write(RECORD, cells | results.read(run), ORDER)
    PAGE.write_text(page_with_table(PAGE.read_text(), results.read(RECORD)))
