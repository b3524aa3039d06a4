"""Which of the locked packages each image gets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKED = ROOT / "images/steps/locked.py"
LOCK = """\
six==1.0 \\
    --hash=sha256:a1
    # via late, other
late==2.0 ; python_version < '3.12' \\
    --hash=sha256:b1 \\
    --hash=sha256:b2
    # via iggykube (pyproject.toml)
late==2.1 ; python_version >= '3.12' \\
    --hash=sha256:c1
    # via iggykube (pyproject.toml)
other==3.0 \\
    --hash=sha256:d1
    # via iggykube (pyproject.toml:dev)
"""
PROJECT = """\
[project]
dependencies = []
[project.optional-dependencies]
broker = ["LATE>=2"]
cli = ["iggykube[broker]"]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def locked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LOCKED), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_an_extra_gets_its_packages_and_what_these_want_with_all_hashes(small: Path) -> None:
    done = locked(small, "extra", "broker")

    lines = [line for line in LOCK.splitlines() if "# via" not in line]
    assert done.stdout.splitlines() == lines[: lines.index("other==3.0 \\")]


def test_packages_can_be_named(small: Path) -> None:
    done = locked(small, "packages", "six")

    assert done.stdout == "six==1.0 \\\n    --hash=sha256:a1\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["packages", "left-pad"], "requirements.lock lacks left-pad: run: make lock"),
        (["extra", "sparkle"], "extra 'sparkle' is not in pyproject.toml; there are broker, cli"),
        (["extra", "cli"], "an image takes one program's"),
        (["packages"], "locked.py packages NAME"),
        (["packages", "six", "instead", "other.lock"], "lacks left-pad: nothing to replace"),
    ],
)
def test_what_is_not_there_is_said(small: Path, words: list[str], said: str) -> None:
    (small / "other.lock").write_text("left-pad==1.0 \\\n    --hash=sha256:e1\n    # via six\n")

    done = locked(small, *words)

    assert done.returncode == 1
    assert said in done.stderr


def test_a_lock_that_does_not_say_for_whom_is_refused(small: Path) -> None:
    (small / "requirements.lock").write_text("six==1.0 \\\n    --hash=sha256:a1\n")

    done = locked(small, "packages", "six")

    assert "not understood: 'six==1.0" in done.stderr
    assert "run: make lock" in done.stderr


@pytest.mark.parametrize(
    ("extra", "present", "absent"),
    [
        ("broker", {"msgspec", "uvloop", "cffi", "yarl"}, {"pyspark", "kopf", "pytest"}),
        ("operator", {"msgspec", "kopf", "pydantic-core"}, {"pyspark", "uvloop", "mypy"}),
        ("spark", {"msgspec", "pyspark", "py4j", "numpy"}, {"kopf", "uvloop", "pandas"}),
    ],
)
def test_an_image_gets_one_programs_packages(
    extra: str, present: set[str], absent: set[str]
) -> None:
    done = locked(ROOT, "extra", extra)

    names = set(re.findall(r"^([a-z0-9._-]+)==", done.stdout, re.M))
    assert present <= names
    assert not absent & names


def test_an_image_may_take_several_extras() -> None:
    done = locked(ROOT, "extra", "spark", "sinks")

    names = re.findall(r"^([a-z0-9._-]+)==", done.stdout, re.M)
    assert {"pyspark", "psycopg", "pyiceberg", "sqlalchemy"} <= set(names)
    assert not {"chdb", "grpcio-tools", "kopf"} & set(names)


def test_an_image_may_have_another_version_of_a_package() -> None:
    done = locked(ROOT, "extra", "spark", "instead", "images/spark-4.1/pyspark.lock")

    plain = set(locked(ROOT, "extra", "spark").stdout.splitlines())
    ours = set(done.stdout.splitlines())
    assert {line.split("==")[0] for line in plain ^ ours if "==" in line} == {"pyspark"}
    assert "pyspark==4.1.4 \\" in ours


def test_it_is_what_the_installed_packages_ask_for() -> None:
    # The judge is another: what pip finds in the environment of this very test.
    asked = locked(ROOT, "extra", "broker").stdout
    names = set(re.findall(r"^([a-z0-9._-]+)==", asked, re.M))

    wanted = {name for one in names for name in _wanted_by(one)}

    assert wanted - names == set()


def _wanted_by(package: str) -> set[str]:
    """What an installed package asks for here, extras aside."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    found = [Requirement(line) for line in requires(package) or []]
    here = [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    return {re.sub(r"[-_.]+", "-", one.name).lower() for one in here}
