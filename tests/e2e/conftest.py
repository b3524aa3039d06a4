"""What every scenario needs: a cluster, a namespace of its own, images, and logs on failure."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

import e2e_backends
import e2e_findings
from e2e_backends import Backend, ImagesOutOfReach
from e2e_cluster.images import archived, ensure_own
from e2e_cluster.places import Places, cache_folder
from e2e_cluster.tools import ensure
from e2e_cluster.trouble import ClusterError
from e2e_helm import Helm
from e2e_kubectl import Document, Kubectl

HERE = Path(__file__).parent
FINDINGS = HERE.parents[1] / "build" / "e2e"
PROJECT_IMAGES = ("broker", "operator", "spark")
TIMEOUT_S = 300.0
FAILED = pytest.StashKey[bool]()
NAMES = itertools.count(1)

MakeNamespace = Callable[..., Kubectl]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First, so that `-m` already sees the marks.
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def backend() -> Backend:
    """The cluster that E2E_BACKEND chooses."""
    try:
        return e2e_backends.chosen()
    except ClusterError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def cluster(backend: Backend) -> Kubectl:
    """kubectl with all rights, in the namespace `default`: for what belongs to no namespace."""
    return Kubectl(backend.kubectl, backend.kubeconfig)


@pytest.fixture(scope="session")
def busybox(backend: Backend) -> str:
    """A small image with a shell, wget, httpd and nslookup, on the nodes; its user is no one's."""
    where = Places(cache_folder())
    ensure(where, ["pause"])
    return load(backend, ensure_own(where)[1:])


@pytest.fixture(scope="session")
def project_images(backend: Backend) -> None:
    """The images of `make images`, on the nodes."""
    folder = Places(cache_folder()).images
    archives = [folder / f"{name}.tar" for name in PROJECT_IMAGES]
    if missing := [path.name for path in archives if not path.exists()]:
        pytest.fail(f"{', '.join(missing)} not in {folder}; run: make images", pytrace=False)
    load(backend, archives)


def load(backend: Backend, archives: list[Path]) -> str:
    """Load images, and the name of the first one; skips where nodes are out of reach."""
    try:
        backend.load(archives)
    except ImagesOutOfReach as reason:
        pytest.skip(str(reason))
    return next(iter(archived(archives[0])))


@pytest.fixture
def make_namespace(cluster: Kubectl, request: pytest.FixtureRequest) -> Iterator[MakeNamespace]:
    """Makes namespaces, `make_namespace(restricted=True)`; after the test they are waited away.

    When the test has failed, what was in them is written below build/e2e first.
    """
    made: list[Kubectl] = []

    def make(*, restricted: bool = False) -> Kubectl:
        name = namespace_name(request.node.name)
        level = "restricted" if restricted else "privileged"
        labels = {"pod-security.kubernetes.io/enforce": level, "iggykube.dev/e2e": "test"}
        cluster.apply(namespace(name, labels))
        made.append(cluster.at(name))
        cluster.at(name).wait("serviceaccount/default", "create")
        return made[-1]

    yield make
    if request.node.stash.get(FAILED, False):
        folder = FINDINGS / re.sub(r"[^\w.-]+", "-", request.node.name)
        shutil.rmtree(folder, ignore_errors=True)
        for kubectl in made:
            e2e_findings.write(kubectl, folder / kubectl.namespace)
    for kubectl in made:
        cluster("delete", "namespace", kubectl.namespace, "--wait=false", "--ignore-not-found")
    for kubectl in made:
        cluster.wait(f"namespace/{kubectl.namespace}", "delete")


def namespace_name(test: str) -> str:
    """Short enough for what objects in it are named after it, and never used before."""
    words = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")
    return f"e2e-{words[:30].rstrip('-')}-{next(NAMES)}-{e2e_findings.RUN}"


def namespace(name: str, labels: dict[str, str]) -> Document:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


@pytest.fixture
def kubectl(make_namespace: MakeNamespace) -> Kubectl:
    """kubectl in a fresh namespace in which everything is allowed."""
    return make_namespace()


@pytest.fixture
def restricted(make_namespace: MakeNamespace) -> Kubectl:
    """kubectl in a fresh namespace that takes only pods of the restricted profile."""
    return make_namespace(restricted=True)


@pytest.fixture(scope="session")
def helm(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm; `helm.at(kubectl.namespace)` for a test's own namespace."""
    return Helm(e2e_backends.helm(), backend.kubeconfig, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def audit_log(backend: Backend) -> Path:
    """The API server's own record of requests, one JSON object a line."""
    if backend.audit_log is None:
        pytest.skip(f"the backend {backend.name} has no audit log that can be read here")
    return backend.audit_log


@pytest.fixture(scope="session")
def growing_class(cluster: Kubectl) -> str:
    """A storage class whose volumes may grow."""
    for one in cluster.items("storageclasses"):
        if one.get("allowVolumeExpansion"):
            return str(one["metadata"]["name"])
    pytest.skip("no storage class of this cluster lets volumes grow")
