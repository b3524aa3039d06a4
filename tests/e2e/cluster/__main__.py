"""`python tests/e2e/cluster up`: the command line of the test cluster (in tests/support)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from e2e_cluster.program import main

if __name__ == "__main__":
    sys.exit(main())
