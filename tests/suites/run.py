"""`make interop`: other people's clients and tests against our broker."""

import signal
import sys

from foreign_suites.main import main

if __name__ == "__main__":
    # An end from outside must end the broker and the suite too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
