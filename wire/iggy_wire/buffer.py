"""What counts as bytes here. `collections.abc.Buffer` exists only since Python 3.12."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
