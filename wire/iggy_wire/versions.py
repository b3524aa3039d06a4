"""Protocol versions as one number: major, minor and patch, packed as on the wire."""

from typing import Final

_MINOR_BITS, _PATCH_BITS = 10, 10


def pack_version(major: int, minor: int, patch: int) -> int:
    """The number that stands for a protocol version on the wire."""
    return (major << _MINOR_BITS | minor) << _PATCH_BITS | patch


def version_text(packed: int) -> str:
    """A packed version for people: `0.11.0`."""
    minor = packed >> _PATCH_BITS & (1 << _MINOR_BITS) - 1
    return f"{packed >> _MINOR_BITS + _PATCH_BITS}.{minor}.{packed & (1 << _PATCH_BITS) - 1}"


VERSION_0_11_0: Final = pack_version(0, 11, 0)
VERSION_0_12_0: Final = pack_version(0, 12, 0)
VERSION_0_12_1: Final = pack_version(0, 12, 1)
VERSION_0_12_2: Final = pack_version(0, 12, 2)

# All steps of P12. Those before (0.11.1 and later 0.11) have only a part of its layouts.
P12_VERSIONS: Final = frozenset({VERSION_0_12_0, VERSION_0_12_1, VERSION_0_12_2})
