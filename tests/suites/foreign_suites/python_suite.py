"""The tests inside the source archive of the official Python client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from foreign_suites.broker import default_broker, health, run_beside
from foreign_suites.places import SUITES, cache
from foreign_suites.results import Outcome, Result

NAME = "python"
TITLE = "tests of apache-iggy 0.9.0, by itself"
TESTS_MIN = 817  # a run of the whole suite with fewer lost some of them
RUN_S_MAX = 1200.0
FETCH_S_MAX = 600.0
TESTS = "foreign/python/tests"
NEEDS_CONTAINERS = f"{TESTS}/test_tls.py"
_REQUIREMENTS = SUITES / "requirements.txt"


def missing() -> str | None:
    """Why this suite cannot run here, or None."""
    return None


def run(folder: Path, known: Mapping[str, str], *, keyword: str | None) -> list[Result]:
    """Run the tests in `folder` against a fresh broker; with `keyword` only those that match."""
    archive, plugin = _fetched()
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "archive", filter="data")
    (root,) = (folder / "archive").iterdir()
    with zipfile.ZipFile(plugin) as wheel:
        wheel.extractall(folder / "site")
    _put_launcher(root)
    results = folder / "results.jsonl"
    (folder / "known.json").write_text(json.dumps(list(known)))
    with default_broker(folder) as broker:
        ending = run_beside(
            broker,
            _command(keyword),
            folder=root,
            environment=_environment(folder),
            output=folder / "pytest.txt",
            limit_s=RUN_S_MAX,
        )
    shutil.rmtree(folder / "archive")
    found = [*_read(results, ending), *health(broker)]
    if keyword is None and len(found) < TESTS_MIN:
        lost = f"{len(found)} tests ran, there are {TESTS_MIN}: {folder / 'pytest.txt'}"
        found.append(Result("the whole suite", Outcome.FAILED, lost))
    return found


def _command(keyword: str | None) -> list[str]:
    command = [sys.executable, "-m", "pytest", TESTS, f"--ignore={NEEDS_CONTAINERS}"]
    command += ["-p", "suite_recorder", "-p", "no:cacheprovider"]
    return command if keyword is None else [*command, "-k", keyword]


def _environment(folder: Path) -> dict[str, str]:
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("IGGY_", "PYTEST_"))
    }
    return ours | {
        "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(SUITES))),
        "SUITE_RESULTS": str(folder / "results.jsonl"),
        "SUITE_KNOWN": str(folder / "known.json"),
        "SUITES_PYTHON": sys.executable,
    }


def _put_launcher(root: Path) -> None:
    # One test starts and restarts a server of its own, from where a build would leave it.
    target = root / "target" / "debug" / "iggy-server"
    target.parent.mkdir(parents=True)
    shutil.copy(SUITES / "iggy-server", target)


def _fetched() -> Sequence[Path]:
    """The source archive and the plugin's wheel, fetched by name and checked by their hashes."""
    folder = cache() / NAME
    if not folder.exists():
        fetching = folder.with_suffix(".new")
        shutil.rmtree(fetching, ignore_errors=True)
        options = ["--no-deps", "--no-build-isolation", "--no-binary=apache-iggy"]
        options += ["--require-hashes", f"--requirement={_REQUIREMENTS}", f"--dest={fetching}"]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", *options],
            env=os.environ | {"PYTHONPATH": str(SUITES / "stand_in")},
            timeout=FETCH_S_MAX,
            check=True,
        )
        fetching.rename(folder)
    (archive,) = folder.glob("*.tar.gz")
    (plugin,) = folder.glob("*.whl")
    return archive, plugin


def _read(path: Path, ending: str) -> Iterator[Result]:
    """One result for every test that was collected, whatever became of the process."""
    if not path.exists():
        return
    collected, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    outcomes = {line["test"]: line for line in lines}
    for test in collected["collected"]:
        line = outcomes.get(test, {"outcome": "failed", "detail": f"no outcome: {ending}"})
        yield Result(test, Outcome(line["outcome"]), line["detail"])
