"""What the charts hold that is made from something else. `make charts` writes it, a test compares.

The chart of the operator carries the resources' definitions (crds/) and its own defaults as files
that its templates can read; both charts' schemas have the resources' fields; both READMEs have a
table of the values.
"""

from __future__ import annotations

from pathlib import Path

import chart_schemas
from chart_values import CHARTS, page_with_table

CRDS = CHARTS.parent / "crds"
OPERATOR = CHARTS / "iggy-operator"
NAMES = ("iggy-operator", "iggy-topology")


def texts() -> dict[Path, str]:
    """Every such file as it should be."""
    result = {
        OPERATOR / "files" / "crds" / path.name: path.read_text(encoding="utf-8")
        for path in sorted(CRDS.glob("*.yaml"))
    }
    values = (OPERATOR / "values.yaml").read_text(encoding="utf-8")
    result[OPERATOR / "files" / "defaults.yaml"] = values
    result.update(chart_schemas.texts())
    result.update({CHARTS / name / "README.md": page_with_table(name) for name in NAMES})
    return result


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
