"""The table of settings in docs/operations.md, made from the code.

.venv/bin/python tests/support/settings_table.py      writes it into the page
"""

from pathlib import Path

from iggy_broker.config import KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
BEGIN = "<!-- settings: begin -->"
END = "<!-- settings: end -->"


def table() -> str:
    """One row per setting: key, variable, default, meaning."""
    lines = ["| key | variable | default | meaning |", "|---|---|---|---|"]
    for key in KEYS:
        default = key.setting.show(key.default)
        shown = default.lower() if isinstance(key.default, bool) else default
        meaning = key.setting.doc.replace("|", "\\|")
        lines.append(f"| `{key.path}` | `{key.variable}` | `{shown}` | {meaning} |")
    return "\n".join(lines)


def page_with_table(page: str) -> str:
    """The page with the table between its marks brought up to date."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
