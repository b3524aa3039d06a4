"""Shell completion: the scripts, and names of a local instance."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_program import PROGRAM, clean_environment, run_program
from local_instances import local_instance

SHOP = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec: {streamRef: {name: shop}, consumerGroups: [{name: billing}]}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: returns}
spec:
  streamRef: {name: shop}
  sinks:
  - {name: lake, type: Files, files: {path: lake}, checkpoint: {volume: {}}, suspend: true}
  sources:
  - {name: made, type: Random, random: {}, checkpoint: {volume: {}}, suspend: true}
"""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of an instance that runs."""
    folder = tmp_path_factory.mktemp("shop")
    with local_instance(folder, SHOP) as instance:
        instance.start()
        instance.step()
        yield instance.folders.root


def completed(words: str, data: Path | None) -> list[str]:
    """What bash would offer for the last of these words."""
    line = f"iggykube {words}"
    environment = clean_environment(
        _IGGYKUBE_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split(" ")) - 1),
    )
    if data is not None:
        environment["IGGYKUBE_DATA"] = str(data)
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", ["complete -o nosort -F", "_IGGYKUBE_COMPLETE=bash_complete"]),
        ("zsh", ["#compdef iggykube", "_IGGYKUBE_COMPLETE=zsh_complete"]),
        ("fish", ["complete --no-files --command iggykube", "_IGGYKUBE_COMPLETE=fish_complete"]),
    ],
)
def test_the_script_of_each_shell(shell: str, words: list[str]) -> None:
    done = run_program("completion", shell)

    assert (done.returncode, done.stderr) == (0, b"")
    assert [word for word in words if word not in done.stdout.decode()] == []


def test_bash_can_read_its_script() -> None:
    script = run_program("completion", "bash").stdout

    done = subprocess.run(
        ["bash", "-c", f"{script.decode()}\ncomplete -p iggykube"], capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"iggykube" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pro", ["produce"]),
        ("si", ["sink"]),
        ("produce ", ["shop"]),
        ("consume shop ", ["orders", "returns"]),
        ("consume shop re", ["returns"]),
        ("consume shop orders --group ", ["billing"]),
        ("consume nothing ", []),
        ("topic show shop re", ["returns"]),
        ("group show shop orders ", ["billing"]),
        ("sink status ", ["returns.lake"]),
        ("source status ", ["returns.made"]),
        ("consume shop orders --output ", ["text", "json", "raw"]),
    ],
)
def test_names_come_from_the_instance(data: Path, words: str, offered: list[str]) -> None:
    assert completed(words, data) == offered


@pytest.mark.parametrize("words", ["produce ", "consume shop ", "sink status "])
def test_without_an_instance_nothing_is_offered_and_nothing_said(
    tmp_path: Path, words: str
) -> None:
    assert completed(words, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
