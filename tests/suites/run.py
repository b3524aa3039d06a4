"""`make interop`: other people's clients and tests against our broker."""

import sys

from foreign_suites.main import main

if __name__ == "__main__":
    sys.exit(main())
