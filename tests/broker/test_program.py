"""`iggy-broker` where it cannot start: one line that names what and where, and an exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path


def ended(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """What a broker says that ends at once."""
    any_port = "127.0.0.1:0"
    environment = os.environ | {"IGGY_TCP_ADDRESS": any_port, "IGGY_MONITORING_ADDRESS": any_port}
    environment |= {
        "IGGY_HTTP_ADDRESS": any_port,
        "IGGY_WEBSOCKET_ADDRESS": any_port,
        "IGGY_QUIC_ADDRESS": any_port,
    }
    return subprocess.run(
        [sys.executable, "-m", "iggy_broker"],
        cwd=folder,
        env=environment | settings,
        capture_output=True,
        text=True,
    )


def test_a_data_directory_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    root = tmp_path / "file" / "data"

    broker = ended(tmp_path, IGGY_SYSTEM_PATH=str(root))

    assert broker.returncode == 1
    *others, record = [json.loads(line) for line in broker.stderr.splitlines()]
    assert [other["event"] for other in others] == ["starting"]
    assert (record["level"], record["event"]) == ("critical", "cannot_start")
    assert record["message"] == (
        f"! cannot start: {root}: Not a directory: a folder must be there,"
        f" or name another data directory; system.path is {root}"
    )


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    broker = ended(tmp_path, IGGY_MESSAGE_BUS_MAX_MESSAGE_SIZE="256 B")

    assert broker.returncode == 2
    record = json.loads(broker.stderr)
    assert (record["level"], record["event"]) == ("critical", "cannot_start")
    assert record["message"] == (
        "! cannot start: IGGY_MESSAGE_BUS_MAX_MESSAGE_SIZE = '256 B': "
        "write a size from 1 KiB to 1 GiB"
    )
