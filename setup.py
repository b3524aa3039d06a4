"""Compiles the kernel when it can. When it cannot, the package installs all the same.

Everything else about the package is in pyproject.toml. `python setup.py build_ext --inplace` puts
the compiled kernel beside its source. IGGYKUBE_PURE=1 skips compiling.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

KERNEL = "wire/iggy_wire/_kernel.pyx"
HASHES = ["wire/iggy_wire/_xxh3_avx2.c", "wire/iggy_wire/_xxh3_avx512.c"]
INCLUDED = [
    "wire/iggy_wire/_kernel_walk.pxi",
    "wire/iggy_wire/_kernel_columns.pxi",
    "wire/iggy_wire/_xxh3.h",
]
HASH_HEADER = "arrow/vendored/xxhash/xxhash.h"


class OptionalBuild(build_ext):
    """A build step whose failure is told and survived: the plain kernel does the same, slower."""

    def build_extension(self, ext: Extension) -> None:
        """Compile one extension or say why not."""
        from Cython.Compiler.Errors import CompileError as CythonError

        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, CythonError, OSError) as error:
            say_plain(f"compiling failed: {error}")


def say_plain(reason: str) -> None:
    """Tell once, on stderr, that the kernel stays plain Python."""
    if not {"build", "build_ext", "bdist_wheel", "editable_wheel", "install"} & set(sys.argv):
        return  # an installer asks this file several questions before it builds
    sys.stderr.write(
        f"\niggykube: the kernel is NOT compiled ({reason}).\n"
        "iggykube: everything works, but checking and reading batches takes 20 times as long.\n"
        "iggykube: install a C compiler and install again to change that.\n\n"
    )


def kernel_extensions() -> list[Extension]:
    """The kernel, if this machine has what compiling it takes."""
    if os.environ.get("IGGYKUBE_PURE") == "1":
        say_plain("IGGYKUBE_PURE=1")
        return []
    if sys.byteorder != "little":
        say_plain("it is written for little-endian machines")
        return []
    pyarrow = find_spec("pyarrow")
    if pyarrow is None or not pyarrow.submodule_search_locations:
        say_plain("pyarrow, which ships the xxHash header, is not installed")
        return []
    include = Path(pyarrow.submodule_search_locations[0]) / "include"
    if not (include / HASH_HEADER).is_file():
        say_plain(f"pyarrow has no {HASH_HEADER}")
        return []
    return [
        Extension(
            "iggy_wire._kernel",
            [KERNEL, *HASHES],
            depends=INCLUDED,
            include_dirs=["wire/iggy_wire", str(include)],
            extra_compile_args=["-O3", "-g0"],
            optional=True,  # lets setuptools copy what is there when compiling failed
        )
    ]


setup(ext_modules=kernel_extensions(), cmdclass={"build_ext": OptionalBuild})
