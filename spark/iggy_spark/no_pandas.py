"""Keeps pyarrow from importing pandas in processes that have no use for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas, leave everything else to others."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out on purpose", name=fullname)
        return None


def settle() -> None:
    """Make pyarrow decide now that there is no pandas, unless somebody has imported it already.

    It looks once, for the first array made from a list, and the import takes longer than all our
    own together (measured: 1.8 s of CPU time in every process). Only for the sink job's processes:
    in other programs `to_pandas` must work.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
