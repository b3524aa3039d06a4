"""Both kernels by name, and memory that ends where it should not be read any further."""

import ctypes
import mmap
from types import ModuleType

import pytest

from iggy_wire import _kernel_plain

try:
    from iggy_wire import _kernel

    compiled: ModuleType | None = _kernel
except ImportError:
    compiled = None

_WHY = "the kernel is not compiled: python setup.py build_ext --inplace"

IMPLEMENTATIONS = [
    pytest.param(
        compiled,
        id="compiled",
        marks=[pytest.mark.skip(reason=_WHY)] if compiled is None else [],
    ),
    pytest.param(_kernel_plain, id="plain"),
]
on_both = pytest.mark.parametrize("kernel", IMPLEMENTATIONS)


class Fence:
    """A page range that is followed by one page no one may touch.

    Bytes placed here end at the border, so reading one byte too far ends the process.
    """

    def __init__(self, size_max: int) -> None:
        self._size = -(-size_max // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self._size + mmap.PAGESIZE)
        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        forbidden = ctypes.c_void_p(address + self._size)
        if libc.mprotect(forbidden, ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes) -> memoryview:
        """A writable copy of `data` right before the forbidden page."""
        start = self._size - len(data)
        view = memoryview(self._memory)[start : self._size]
        view[:] = data
        return view
