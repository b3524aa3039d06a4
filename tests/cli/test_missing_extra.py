"""Only the libraries are installed: the programs say which extra they need."""

import os
import subprocess
import sys

import pytest

HIDDEN = """
import sys
HIDDEN_NAME = sys.argv.pop()
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == HIDDEN_NAME:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
from %s import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "arguments", "hidden", "told"),
    [
        ("iggykube.program", [], "click", "iggykube: the Python package click is missing"),
        (
            "iggykube.program",
            ["check", "-f", __file__],
            "yaml",
            "iggykube: the Python package yaml is missing",
        ),
        (
            "iggy_broker.__main__",
            [],
            "argon2",
            "! cannot start: the Python package argon2 is missing",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str, arguments: list[str], hidden: str, told: str
) -> None:
    code = HIDDEN % module
    environment = os.environ | {"IGGY_SYSTEM_PATH": "/nowhere"}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments, hidden],
        capture_output=True,
        text=True,
        env=environment,
    )

    assert ended.returncode == 1
    assert told in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "pip install 'iggykube[" in ended.stderr
    assert "Traceback" not in ended.stderr
