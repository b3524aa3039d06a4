"""`iggykube check`: files, as the API server would see them."""

from pathlib import Path

import click
import msgspec

from iggy_operator.documents import Document, DocumentErrors, FileProblem
from iggy_operator.resources import load
from iggykube.documents import file_problems
from iggykube.errors import LocalError
from iggykube.local.broker_settings import setting_problems
from iggykube.local.folders import Folders
from iggykube.local.problems import job_problems, reference_problems, secret_problems
from iggykube.options import DEFAULT_DATA, files_option, output_option


@click.command()
@files_option
@output_option
def check(files: tuple[Path, ...], output: str) -> None:
    """Check FILE as the API server would, and as its jobs would. Starts nothing.

    Ends with 0 if everything is right; else with 1, and a line for each problem that names file,
    line, field and the fix. Whether an update is allowed depends on the object as it is: `up`
    checks that, too.
    """
    try:
        resources = load(files)
        jobs = job_problems(resources, Folders.at(DEFAULT_DATA), runs_here=False)
        if refused := [*setting_problems(resources), *jobs]:
            raise DocumentErrors(refused)
    except DocumentErrors as error:
        if output == "json":
            _show(Findings(problems=[_problem(item) for item in error.problems]))
        with file_problems():
            raise
    missing = (*reference_problems(resources), *secret_problems(resources))
    notes = [f"{problem} (it may exist elsewhere)" for problem in missing]
    notes += [f"left alone: {skipped}" for skipped in resources.skipped]
    if output == "json":
        identities = [document.identity for document in resources.documents]
        _show(Findings([Checked(*identity) for identity in identities], notes))
    else:
        for note in notes:
            click.echo(f"note: {note}", err=True)
        for document in resources.documents:
            click.echo(f"{_title(document)}: ok")
    if not resources.documents:
        raise LocalError("the files hold no resource of IggyKube: check --file")


class Checked(msgspec.Struct, frozen=True):
    """One object that is right."""

    kind: str
    namespace: str
    name: str


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong; line and column count from 1."""

    file: str
    line: int
    column: int
    field: str
    message: str


class Findings(msgspec.Struct, frozen=True):
    """What programs get. With problems, nothing is said of the rest."""

    documents: list[Checked] = []
    notes: list[str] = []
    problems: list[Problem] = []


def _show(findings: Findings) -> None:
    click.echo(msgspec.json.encode(findings).decode())


def _problem(item: FileProblem) -> Problem:
    place = item.place
    return Problem(place.file, place.line, place.column, item.field, item.message)


def _title(document: Document) -> str:
    kind, namespace, name = document.identity
    return f"{kind} {name}" if namespace == "default" else f"{kind} {namespace}/{name}"
