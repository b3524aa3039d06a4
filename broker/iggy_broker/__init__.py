"""The broker: an edge (net) over a control plane (metadata) and a data plane (storage)."""

from typing import Final

__version__: Final = "0.1.0"  # told to clients at login and in the statistics
