"""A job without Spark, for tests of whoever runs jobs. Its orders stand in `spark.conf`.

`fake.exits`: exit code of each start, `-` for "run until SIGTERM", `!` for "run until SIGKILL"; the
last counts for all later. A redrive that is asked for writes two letters, and one fails again.
A source sends 7 messages, and then sees 3 more.
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


def work_of_sink(number: int) -> None:
    tell(json.dumps({"event": "progress", "batch": number, "committed": {"0": 7}, "lag": 0}))
    tell(json.dumps({"event": "row", "row": {"id": number}}))


def work_of_source(number: int) -> None:
    at = {"next": 7 * (number + 1)}
    tell(json.dumps({"event": "started", "source": "x", "committed": None}))
    done = {"batch": number, "messages": 7, "committed": at, "behind": None}
    tell(json.dumps({"event": "progress", **done}))
    tell(json.dumps({"event": "behind", "behind": 3}))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    job = json.loads(parser.parse_args().config.read_text())
    assert os.environ["IGGY_USERNAME"] and os.environ["IGGY_PASSWORD"]
    starts = Path(job["checkpoint"]) / "starts"
    number = int(starts.read_text()) if starts.exists() else 0
    starts.write_text(str(number + 1))
    exits = (job.get("sink") or job["source"])["spark"]["conf"]["fake.exits"].split()
    code = exits[min(number, len(exits) - 1)]
    # A blocked signal stays pending: it cannot come between the last event and the wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    tell("not an event")
    if request := job.get("redrive", {}).get("request"):
        tell(json.dumps({"event": "redriving"}))
        tell(json.dumps({"event": "progress", "batch": 0, "rows": 2, "dead": 1}))
        tell(json.dumps({"event": "redriven", "request": request}))
    work_of_source(number) if "source" in job else work_of_sink(number)
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
