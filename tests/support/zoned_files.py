"""A task of the Files sink in a process of its own, in the time zone of the variable TZ.

    python tests/support/zoned_files.py FOLDER

It writes how many seconds it is ahead of UTC at the first of `TIMES`.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from pathlib import Path

from iggy_spark import blocks
from iggy_spark.sinks.files import FilesSink
from sink_cases import PlayedTask, declare, portions, wanted

PAYLOAD = declare(text="at TIMESTAMP")
TIMES = ["2026-03-29T00:59:59.999999Z", "2026-03-29T01:00:00Z", "2026-12-31T23:59:59.999999Z"]


def document(number: int) -> bytes:
    return json.dumps({"at": TIMES[number]}).encode()


def main(folder: Path) -> None:
    block = blocks.Files(str(folder), partition_by=["iggy_date"])
    target = FilesSink(block, PAYLOAD)
    target.check()
    span = wanted(0, len(TIMES))
    target.write_task(span, portions(span, payload=PAYLOAD, made=document), PlayedTask())
    first = datetime.datetime.fromisoformat(TIMES[0])
    sys.stdout.write(f"{time.localtime(first.timestamp()).tm_gmtoff}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
