"""Help comes at once: nothing heavy is imported for it."""

import subprocess
import sys

import pytest

SHOW = """
import sys
from iggykube.__main__ import run
code = run(sys.argv[1:])
print("imported", *sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(code)
"""
HEAVY = {"pyspark", "pyarrow", "numpy", "boto3", "kubernetes", "kopf", "aiohttp"}
LOCAL_MODE = {"yaml", "jsonschema", "celpy", "rich"}


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY | LOCAL_MODE | {"iggy_client", "asyncio"}),
        (["--version"], HEAVY | LOCAL_MODE | {"iggy_client", "asyncio"}),
        (["produce", "--help"], HEAVY | LOCAL_MODE),
        (["consume", "--help"], HEAVY | LOCAL_MODE),
        (["status", "--help"], HEAVY),
        (["up", "--help"], HEAVY),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(
    arguments: list[str], absent: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *arguments], capture_output=True, text=True, check=True
    )

    imported = set(done.stdout.splitlines()[-1].split())
    assert "imported" in imported
    assert sorted(imported & absent) == []
