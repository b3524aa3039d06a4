"""The resources that the documents show: files of docs/samples, and YAML blocks in pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iggy_operator.documents import LOADER

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SAMPLES = sorted((ROOT / "docs" / "samples").glob("*.yaml"))
OVERLAYS = sorted(path.parent for path in (ROOT / "docs" / "samples").rglob("kustomization.yaml"))
# A block of a page that is a resource says so in its first lines; others are values or parts.
_BLOCK = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_RESOURCE = re.compile(r"^apiVersion:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """Some documents, and where they stand."""

    place: str
    text: str

    def documents(self) -> list[dict[str, Any]]:
        """As values."""
        return [item for item in yaml.load_all(self.text, Loader=LOADER) if item is not None]


def blocks() -> Iterator[Sample]:
    """Every block of every page that holds resources."""
    for page in PAGES:
        text = page.read_text()
        for found in _BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            if _RESOURCE.search(found[1]):
                yield Sample(f"{page.relative_to(ROOT)}:{line}", found[1])


def samples() -> Iterator[Sample]:
    """All of them."""
    for path in SAMPLES:
        yield Sample(str(path.relative_to(ROOT)), path.read_text())
    yield from blocks()
