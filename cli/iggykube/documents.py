"""Problems of files as failures of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from iggy_operator.documents import DocumentErrors
from iggykube.errors import FileProblems


@contextmanager
def file_problems() -> Iterator[None]:
    """Inside, what is wrong with files ends the command with a line for each problem."""
    try:
        yield
    except DocumentErrors as error:
        raise FileProblems([str(problem) for problem in error.problems]) from error
