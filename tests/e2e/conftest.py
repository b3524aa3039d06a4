"""What every scenario needs: a cluster, a namespace of its own, images, and logs on failure."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import e2e_backends
import e2e_namespaces
import e2e_operator
from e2e_backends import Backend, ImagesOutOfReach
from e2e_cluster.images import archived, ensure_own
from e2e_cluster.places import Places, cache_folder
from e2e_cluster.tools import ensure
from e2e_cluster.trouble import ClusterError
from e2e_helm import Helm
from e2e_kubectl import Kubectl
from e2e_namespaces import Namespaces
from e2e_operator import Operator
from object_store import ObjectStore, running_object_store

HERE = Path(__file__).parent
PROJECT_IMAGES = ("broker", "operator", "spark")
TIMEOUT_S = 300.0
LAST = "test_rights.py"
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First, so that `-m` already sees the marks. What looks back on the run is at its end.
    items.sort(key=lambda item: item.path == HERE / LAST)
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
        module = item.getparent(pytest.Module)
        assert module is not None, "every test is in a file"
        module.stash[FAILED] = True
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


@pytest.fixture(scope="session")
def spark_41_image(backend: Backend) -> str:
    """The image with Spark 4.1, on the nodes. `make images` builds it on request only: here it is
    built where it is not there, or not as the tree is now.
    """
    name = "spark-4.1"
    folder = Places(cache_folder()).images
    done = subprocess.run(
        [sys.executable, "-m", "image_builder", name, "--folder", str(folder)],
        cwd=HERE.parents[1],
        env={**os.environ, "PYTHONPATH": "images"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)
    return load(backend, [folder / f"{name}.tar"])


def load(backend: Backend, archives: list[Path]) -> str:
    """Load images, and the name of the first one; skips where nodes are out of reach."""
    try:
        backend.load(archives)
    except ImagesOutOfReach as reason:
        pytest.skip(str(reason))
    return next(iter(archived(archives[0])))


@pytest.fixture
def make_namespace(cluster: Kubectl, request: pytest.FixtureRequest) -> Iterator[Namespaces]:
    """Makes namespaces, `make_namespace(restricted=True)`; after the test they are waited away.

    When the test has failed, what was in them is written below build/e2e first.
    """
    with e2e_namespaces.fresh(cluster, request.node.name, request.path.stem) as made:
        yield made
        if request.node.stash.get(FAILED, False):
            made.write()


@pytest.fixture(scope="module")
def module_namespace(cluster: Kubectl, request: pytest.FixtureRequest) -> Iterator[Namespaces]:
    """The same for fixtures that a whole module shares."""
    with e2e_namespaces.fresh(cluster, request.path.stem, request.path.stem) as made:
        yield made
        if request.node.stash.get(FAILED, False):
            made.write()


@pytest.fixture
def kubectl(make_namespace: Namespaces) -> Kubectl:
    """kubectl in a fresh namespace in which everything is allowed."""
    return make_namespace()


@pytest.fixture
def restricted(make_namespace: Namespaces) -> Kubectl:
    """kubectl in a fresh namespace that takes only pods of the restricted profile."""
    return make_namespace(restricted=True)


@pytest.fixture(scope="session")
def our_kinds(cluster: Kubectl) -> None:
    """The definitions of this tree, in the cluster."""
    cluster(
        "apply", "--server-side", "--force-conflicts", "--filename", str(HERE.parents[1] / "crds")
    )
    for name in ("brokers", "streams", "topics", "sinks", "users"):
        cluster.wait(f"crd/iggy{name}.iggykube.dev", "condition=Established")


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


@pytest.fixture(scope="module")
def operator(
    helm: Helm, module_namespace: Namespaces, project_images: None, request: pytest.FixtureRequest
) -> Iterator[Operator]:
    """An operator for this module alone, which watches one namespace, `operator.work`.

    OPERATOR_VALUES of the module are values of its chart, NAMESPACE_CHARACTERS how long the name
    of `work` is.
    """
    values = getattr(request.module, "OPERATOR_VALUES", {})
    characters = getattr(request.module, "NAMESPACE_CHARACTERS", 0)
    with e2e_operator.installed(helm, module_namespace, values, characters=characters) as found:
        yield found
        if request.node.stash.get(FAILED, False):
            module_namespace.write()


@pytest.fixture(scope="module")
def cluster_operator(
    helm: Helm, module_namespace: Namespaces, project_images: None, request: pytest.FixtureRequest
) -> Iterator[Operator]:
    """The same, but it watches the whole cluster, as the chart does by itself."""
    values = getattr(request.module, "OPERATOR_VALUES", {})
    with e2e_operator.installed_for_all(helm, module_namespace, values) as found:
        yield found
        if request.node.stash.get(FAILED, False):
            module_namespace.write()


@pytest.fixture(scope="session")
def machine_address(backend: Backend) -> str:
    """Where pods reach a program on this machine, which reaches theirs."""
    if backend.machine_address is None:
        pytest.skip(
            f"pods of the backend {backend.name} do not reach this machine, as far as it is known; "
            f"{e2e_backends.MACHINE_VARIABLE}=ADDRESS says where they do (with E2E_BACKEND=current)"
        )
    return backend.machine_address


@pytest.fixture(scope="module")
def store(machine_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A real object store on this machine; e2e_store.serve makes it known in a namespace."""
    folder = tmp_path_factory.mktemp("store")
    with running_object_store(folder, host=machine_address) as found:
        yield found
