"""The process that gives claims their volumes: watches, decides anew from all there is, acts."""

from __future__ import annotations

import argparse
import http.client
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .api import Api, ApiError
from .volumes import Decision, Document, Grow, Provide, Remove, decide, growing_status

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
AGAIN_S = 1.0  # after a failure, of the server or of one action
AT_LEAST_EVERY_S = 30.0
LOST = (OSError, http.client.HTTPException, ValueError)  # ValueError: a line that was cut


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Volumes of the test cluster, as folders.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--volumes", type=Path, required=True)
    parser.add_argument(
        "--ready", type=Path, required=True, help="made when the first pass is done"
    )
    options = parser.parse_args(arguments)
    options.volumes.mkdir(parents=True, exist_ok=True)
    options.ready.unlink(missing_ok=True)
    Provisioner(Api.from_kubeconfig(options.kubeconfig), options.volumes).serve(options.ready)


class Provisioner:
    """Level-triggered: a change only says that there may be work; what it is, the lists say."""

    def __init__(self, api: Api, root: Path) -> None:
        self._api = api
        self._root = root
        self._changed = threading.Event()

    def serve(self, ready: Path) -> None:
        for path in (CLAIMS, VOLUMES):
            threading.Thread(target=self._watch, args=(path,), daemon=True).start()
        while True:
            self._changed.clear()
            if self.work():
                ready.touch()
            else:
                time.sleep(AGAIN_S)
                self._changed.set()
            self._changed.wait(AT_LEAST_EVERY_S)

    def work(self) -> bool:
        """One pass over everything; whether all of it went well."""
        try:
            lists = [self._api.get(path)["items"] for path in (CLAIMS, VOLUMES, CLASSES)]
        except (ApiError, *LOST) as error:
            tell(f"the API server does not answer: {error}")
            return False
        claims, volumes, classes = lists
        done = [self._act(decision) for decision in decide(claims, volumes, classes, self._root)]
        return all(done)  # one that failed does not keep the others waiting

    def _act(self, decision: Decision) -> bool:
        try:
            if isinstance(decision, Provide):
                self._provide(decision)
            elif isinstance(decision, Grow):
                self._grow(decision)
            else:
                self._remove(decision)
        except (ApiError, *LOST) as error:
            tell(f"{type(decision).__name__} failed, tried again: {error}")
            return False
        return True

    def _provide(self, decision: Provide) -> None:
        decision.folder.mkdir(exist_ok=True)
        self._api.create(VOLUMES, decision.volume)
        tell(f"made {decision.folder.name}")

    def _grow(self, decision: Grow) -> None:
        size: Document = {"spec": {"capacity": {"storage": decision.size}}}
        self._api.merge(f"{VOLUMES}/{decision.volume}", size)
        claim = f"namespaces/{decision.namespace}/persistentvolumeclaims/{decision.claim}"
        self._api.merge(f"/api/v1/{claim}/status", growing_status(decision.size))
        tell(f"grew {decision.volume} to {decision.size}")

    def _remove(self, decision: Remove) -> None:
        # The folder first: a volume that is still listed is tried again, a lost folder never.
        if decision.folder.exists():
            shutil.rmtree(decision.folder)
        self._api.delete(f"{VOLUMES}/{decision.volume}")
        tell(f"removed {decision.volume}")

    def _watch(self, path: str) -> None:
        while True:
            try:
                version = self._api.get(f"{path}?limit=1")["metadata"]["resourceVersion"]
                self._changed.set()
                for _ in self._api.watch(path, version):
                    self._changed.set()
            except (ApiError, *LOST):
                time.sleep(AGAIN_S)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
