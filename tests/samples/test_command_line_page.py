"""docs/command-line.md: its tour is walked, and it leaves out no command and no option."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli_program import PROGRAM, clean_environment
from iggykube.commands import cli
from page_samples import ROOT

PAGE = ROOT / "docs" / "command-line.md"
BLOCK = re.compile(r"^```(yaml|sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.timeout(120)


def tour() -> list[tuple[str, str]]:
    """Kind and text of each block of the tour."""
    text = PAGE.read_text()
    part = text[text.index("## A tour") : text.index("## Commands")]
    return BLOCK.findall(part)


def steps() -> list[tuple[str, str]]:
    """What is typed into the other terminal, and what comes."""
    blocks = tour()
    return [
        (text, blocks[index + 1][1])
        for index, (kind, text) in enumerate(blocks[:-1])
        if kind == "sh" and blocks[index + 1][0] == "text"
    ]


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it with the `iggykube` of this environment in front."""
    programs = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=clean_environment() | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tour_is_as_the_page_says(tmp_path: Path) -> None:
    (resources,) = [text for kind, text in tour() if kind == "yaml"]
    file = tmp_path / "shop.yaml"
    file.write_text(resources)
    # The ports of the page may be taken where tests run.
    up = [*PROGRAM, "up", "-f", "shop.yaml", "--port", "0", "--monitoring-port", "0"]
    with subprocess.Popen(up, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while "orders 0 messages" not in running.stdout.readline():
            assert running.poll() is None
        walked = [(shell(script, tmp_path), expected) for script, expected in steps()]
        file.write_text(resources.replace("partitions: 3", "partitions: 4"))
        while "partitions" not in (said := running.stdout.readline()):
            assert running.poll() is None
        status = shell("iggykube status", tmp_path)
        down = shell([text for kind, text in tour() if kind == "sh"][-1], tmp_path)
        running.stdout.read()

    assert len(walked) == 3
    for done, expected in walked:
        assert (done.stdout, done.stderr) == (expected, "")
    assert f"`{said.strip()}`" in PAGE.read_text().replace("\n", " ")
    assert re.search(r"billing +0 +3 +0", status.stdout)
    assert (down.returncode, running.returncode) == (0, 0)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


@pytest.mark.parametrize(("words", "command"), list(commands(cli)), ids=lambda value: str(value))
def test_every_command_and_option_is_told_of(words: str, command: click.Command) -> None:
    text = PAGE.read_text()

    names = [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
    untold = [name for name in names if name.startswith("-") and f"`{name}" not in text]

    assert f"### {words}\n" in text or f"`{words}`" in text
    assert untold == []
