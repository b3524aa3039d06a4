"""A sink job without Spark, for tests of whoever runs jobs. Its orders stand in `spark.conf`.

`fake.exits`: exit code of each start, `-` for "run until SIGTERM", `!` for "run until SIGKILL"; the
last counts for all later. A redrive that is asked for writes two letters, and one fails again.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    job = json.loads(parser.parse_args().config.read_text())
    assert os.environ["IGGY_USERNAME"] and os.environ["IGGY_PASSWORD"]
    starts = Path(job["checkpoint"]) / "starts"
    number = int(starts.read_text()) if starts.exists() else 0
    starts.write_text(str(number + 1))
    exits = job["sink"]["spark"]["conf"]["fake.exits"].split()
    code = exits[min(number, len(exits) - 1)]
    # A blocked signal stays pending: it cannot come between the last event and the wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    tell("not an event")
    if request := job.get("redrive", {}).get("request"):
        tell(json.dumps({"event": "redriving"}))
        tell(json.dumps({"event": "progress", "batch": 0, "rows": 2, "dead": 1}))
        tell(json.dumps({"event": "redriven", "request": request}))
    tell(json.dumps({"event": "progress", "batch": number, "committed": {"0": 7}, "lag": 0}))
    tell(json.dumps({"event": "row", "row": {"id": number}}))
    if code == "!":
        signal.sigwait([])
    if code == "-":
        signal.sigwait([signal.SIGTERM])
        tell(json.dumps({"event": "stopped", "reason": "signal", "lag": None}))
        return 0
    if code != "0":
        tell(json.dumps({"event": "failed", "reason": f"start {number} failed"}))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
