"""`make demo`: the main job on one machine, from nothing to a table read back from Parquet."""

import os
import signal
import sys

# Ctrl-C while the modules are read, which takes a moment: nothing has begun, so just leave.
signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))

from flights_demo.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
