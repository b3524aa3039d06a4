"""The sink job as a file, `local:///opt/iggykube/sink_job.py`: spark-submit takes no module."""

import sys

from iggy_spark.sink_job import main

if __name__ == "__main__":
    sys.exit(main())
