"""`make demo`: the main job on one machine, from nothing to a table read back from Parquet."""

import sys

from flights_demo.main import main

if __name__ == "__main__":
    sys.exit(main())
