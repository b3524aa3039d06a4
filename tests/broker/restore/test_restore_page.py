"""The commands of docs/restore.md, each as it stands there, on an archive of a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_broker.metadata.snapshot import VERSION
from kept_directories import check

PAGE = Path(__file__).resolve().parents[3] / "docs" / "restore.md"
BLOCK = re.compile(r"^### (?P<title>.*?)$|^```sh\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Heading and text of each."""
    found, title = [], ""
    for match in BLOCK.finditer(PAGE.read_text()):
        title = match["title"] or title
        if match["text"]:
            found.append((title, match["text"]))
    return found


@pytest.mark.parametrize(("title", "text"), blocks(), ids=[title for title, _ in blocks()])
def test_the_commands_of_the_page(
    broker: BrokerProcess, archive: Path, tmp_path: Path, title: str, text: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "iggy-broker").write_text(f'#!/bin/sh\nexec {sys.executable} -m iggy_broker "$@"\n')
    (programs / "iggy-broker").chmod(0o755)
    ours = text.replace("/mnt/archive", str(archive)).replace("/var/tmp", str(tmp_path))
    environment = broker.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"

    done = subprocess.run(
        ["bash", "-e", "-c", ours], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert '"event": "restored"' in done.stderr
    if title.startswith("Practice"):
        broker.data = tmp_path / "practice"
        broker.settings = {}
    broker.start()
    check(broker, VERSION)
