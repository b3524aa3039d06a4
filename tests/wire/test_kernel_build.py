"""Installing with, without and with a broken compiler. Builds a copy, in a folder of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "_kernel.pyx",
    "_kernel_walk.pxi",
    "_kernel_columns.pxi",
    "_xxh3.h",
    "_xxh3_avx2.c",
    "_xxh3_avx512.c",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    package = tmp_path / "wire" / "iggy_wire"
    package.mkdir(parents=True)
    for name in SOURCES:
        shutil.copy(ROOT / "wire" / "iggy_wire" / name, package)
    shutil.copy(ROOT / "setup.py", tmp_path)
    return tmp_path


def build_in_place(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_failing_compiler_is_told_once_and_survived(copy: Path) -> None:
    done = build_in_place(copy, CC="/bin/false")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the kernel is NOT compiled") == 1
    assert not list(copy.glob("wire/iggy_wire/*.so"))


def test_a_source_that_does_not_translate_is_survived(copy: Path) -> None:
    (copy / "wire/iggy_wire/_kernel.pyx").write_text("cdef int broken(:\n")

    done = build_in_place(copy)

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the kernel is NOT compiled") == 1


def test_compiling_can_be_skipped(copy: Path) -> None:
    done = build_in_place(copy, IGGYKUBE_PURE="1")

    assert done.returncode == 0, done.stderr
    assert "IGGYKUBE_PURE=1" in done.stderr
    assert not list(copy.glob("wire/iggy_wire/*.so"))


def test_the_compiled_kernel_is_not_older_than_its_source() -> None:
    package = ROOT / "wire" / "iggy_wire"
    built = list(package.glob("_kernel.*.so"))
    if not built:
        pytest.skip("the kernel is not compiled: python setup.py build_ext --inplace")

    changed = max((package / name).stat().st_mtime for name in SOURCES)

    assert max(path.stat().st_mtime for path in built) >= changed, "compile the kernel again"
