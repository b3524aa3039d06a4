"""The cluster as a whole. Whatever state `up` finds, it ends with a cluster that works."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import certificates, containers, images, machine, network, places, rendered, tools
from .components import Component, components
from .places import Places
from .processes import Processes, fingerprint
from .trouble import ClusterError, run, say

READY_S = 120.0
STEP_S = 0.1


class Cluster:
    """One cluster over one folder; `up` and `down` may be called in any state, by one at a time."""

    def __init__(self, where: Places) -> None:
        self.where = where
        self._processes = Processes(where.run / "processes", where.logs)

    def check(self) -> None:
        """ClusterError with all that this machine lacks to carry it."""
        machine.check(lambda name: self._processes.running(name) is not None)

    def up(self) -> None:
        """Bring it up, or what is missing of it; quick when nothing is."""
        began = time.monotonic()
        with self._alone():
            self.check()
            tools.ensure(self.where)
            if started := self._start():
                seconds = time.monotonic() - began
                say(f"up after {seconds:.0f} s; started {', '.join(started)}")
            else:
                say("it runs, nothing to do")
        say(f"KUBECONFIG={self.where.kubeconfig}")

    def down(self) -> None:
        """End it and remove all that it left on the machine; tools and images stay in the cache."""
        with self._alone():
            if self.where.run.exists():
                for component in reversed(components(self.where)):
                    self._processes.stop(component.name)
                containers.remove_all(self.where)
                network.down(self.where)
                shutil.rmtree(self.where.run)
        say("down; nothing of it is left but the cache of programs and images")

    def is_up(self) -> bool:
        """Whether everything runs and is ready."""
        return all(
            self._processes.running(component.name) is not None and component.ready()
            for component in components(self.where)
        )

    def status(self) -> bool:
        """Say what runs; whether all of it does and is ready."""
        whole = True
        for component in components(self.where):
            note = self._processes.running(component.name)
            ready = note is not None and component.ready()
            whole = whole and ready
            state = (
                "down"
                if note is None
                else f"process {note.pid}, {'ready' if ready else 'NOT ready'}"
            )
            say(f"{component.name:<24} {state}")
        return whole

    def load(self, archives: list[Path]) -> None:
        """Give the node images from OCI archives."""
        for archive in archives:
            if not archive.exists():
                raise ClusterError(f"{archive} does not exist; make it: make images")
        for loaded in images.load(archives):
            say(f"image {loaded.name} {'is there' if loaded.was_there else 'loaded'}")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self.where.root.mkdir(parents=True, exist_ok=True)
        with (self.where.root / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another one is bringing it up or down; waiting for that")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start(self) -> list[str]:
        """Start what does not run as it should; the names of what was started."""
        where = self.where
        for folder in (where.run, where.logs, where.volumes, where.settings):
            folder.mkdir(parents=True, exist_ok=True)
        certificates.ensure(where.keys)
        for path, text in rendered.files(where).items():
            _write(path, text)
        containers.note_folders(where)
        network.up(where)
        containers.make_groups()
        started = [one.name for one in components(where) if self._start_one(one)]
        self._prepare(new=bool(started))
        return started

    def _start_one(self, component: Component) -> bool:
        mark = fingerprint(component.command, component.settings)
        note = self._processes.running(component.name)
        if note is not None and note.fingerprint == mark and component.ready():
            return False
        self._processes.stop(component.name)
        self._processes.start(
            component.name,
            component.command,
            fingerprint=mark,
            environment=component.environment,
        )
        self._wait(component.name, component.ready)
        return True

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not ready():
            ended = self._processes.running(name) is None
            if ended or time.monotonic() > deadline:
                what = "ended" if ended else f"is not ready after {READY_S:.0f} s"
                raise ClusterError(
                    f"{name} {what}; if its state is broken, make a new cluster: "
                    "make cluster-down && make cluster-up. "
                    f"The end of {self._processes.log(name)}:\n"
                    f"{self._processes.log_end(name)}"
                )
            time.sleep(STEP_S)

    def _prepare(self, *, new: bool) -> None:
        """Images that every pod needs, storage classes, and a node that takes pods."""
        images.load(images.ensure_own(self.where))
        if new:
            listed = {"apiVersion": "v1", "kind": "List", "items": rendered.storage_classes()}
            self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
            self.kubectl("wait", "--for=condition=Ready", f"node/{places.NODE}", "--timeout=120s")
            account = "serviceaccount/default"
            self.kubectl("wait", "--for=create", account, "--namespace=default", "--timeout=60s")

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        kubectl, config = self.where.kubectl, self.where.kubeconfig
        return run([kubectl, f"--kubeconfig={config}", *words], stdin=stdin, timeout_s=180)


def _write(path: Path, text: str) -> None:
    """Secrets are among these files: nobody else reads them. One that is right is not touched."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.replace(path)
