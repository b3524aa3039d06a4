"""`make bench`: the broker against a bare server and the bare disk."""

import sys

from iggy_bench.main import main

if __name__ == "__main__":
    sys.exit(main())
