"""The operator in many short lives: processes that are forked ready-made, to be killed.

A start of Python takes longer than such a life. The parent has a /etc/resolv.conf of its own, so
that names of the cluster mean what they mean in a pod; a machine that is a node reaches them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

OVER = "over"
_ENTER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


class Lives:
    """One after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self) -> int:
        """Start one, and its number."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    @staticmethod
    def is_alive(number: int) -> bool:
        """It has not ended, by itself or otherwise."""
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return False
        return True

    def wait_for_the_end(self) -> None:
        assert self._line() == OVER

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the parent of the operators has ended; its log says why"
        return line.strip()


@contextmanager
def lives(
    folder: Path, settings: Mapping[str, str], *, api: str, name_server: str
) -> Iterator[Lives]:
    """With settings of the operator, without the prefix of their variables. Needs root."""
    names = folder / "resolv.conf"
    names.write_text(f"nameserver {name_server}\nsearch svc.cluster.local cluster.local\n")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api)))
    program = [sys.executable, str(Path(__file__).resolve())]
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", _ENTER, "sh", str(names)]
    environment = os.environ | {f"IGGY_OPERATOR_{name}": text for name, text in settings.items()}
    with (
        (folder / "operators.log").open("ab") as log,
        subprocess.Popen(
            [*command, *program],
            env=environment | {"KUBECONFIG": str(kubeconfig)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield Lives(process)


def _kubeconfig(api: str) -> dict[str, object]:
    context = {"cluster": "proxy", "user": "proxy"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": api}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": context}],
        "current-context": "proxy",
    }


def _parent() -> None:
    from iggy_operator.__main__ import main
    from iggy_operator.program import main as _imported_before_the_fork
    from iggy_operator.schema import schemas

    assert _imported_before_the_fork
    schemas()
    for _ in sys.stdin:
        number = os.fork()
        if not number:
            os._exit(main([]))
        _say(str(number))
        os.waitpid(number, 0)
        _say(OVER)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _parent()
