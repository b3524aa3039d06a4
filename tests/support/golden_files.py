"""Manifests that must stay as they are, byte for byte: `UPDATE_GOLDEN=1` writes them anew.

A change in one of these files is a change in clusters that run. Names, selectors, claims and the
hash of what a user asked for must never change: they lie in files of their own, which are kept.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "operator" / "golden"
UPDATE_VARIABLE = "UPDATE_GOLDEN"


class _Dumper(yaml.SafeDumper):
    """No anchors: a reader of the file shall see what is applied."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", data, style="|" if "\n" in data else None
    )


_Dumper.add_representer(str, _text)


def golden_text(manifests: Iterable[Mapping[str, Any]]) -> str:
    dumper: Any = _Dumper
    return yaml.dump_all(manifests, Dumper=dumper, sort_keys=False, width=1000, explicit_start=True)


def check_golden(name: str, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Compare with the file of that name, or write it."""
    path, text = FOLDER / f"{name}.yaml", golden_text(manifests)
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, (
        f"{path} says otherwise. If it is meant: {UPDATE_VARIABLE}=1, and read the difference"
    )


def check_frozen(name: str, values: Iterable[Mapping[str, Any]]) -> None:
    """The same for what must never change, since running things hang on it: written once."""
    if os.environ.get(UPDATE_VARIABLE) and (FOLDER / f"{name}.yaml").exists():
        assert (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") == golden_text(values), (
            f"{name} is of a release and stays as it is: what it lists must not change"
        )
    check_golden(name, values)
