"""The commands of docs/http.md, run as they stand there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker_process import PASSWORD, running_broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which is not installed")
def test_the_tour_is_as_the_page_says(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)

    with running_broker(tmp_path, shards=2, transports=["http"]) as broker:
        environment = {"H": f"http://127.0.0.1:{broker.ports['http']}", "PASSWORD": PASSWORD}
        ran = subprocess.run(
            ["sh", "-eu", "-c", script],
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count('"payload":"eyJvcmRlciI6IDF9"') == 1
    assert '"confirmations":[{"stream_id":0,"topic_id":0,' in ran.stdout
