"""Which cluster tests run on: chosen by one variable, and a clear word for what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import e2e_backends
from e2e_backends import Current, ImagesOutOfReach, Kind, chosen
from e2e_cluster.images import pack
from e2e_cluster.trouble import ClusterError

KIND = """#!/bin/sh
echo "$*" >> {calls}
case "$1 $2" in
"get clusters") cat {clusters} ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that stands before all others on PATH, and a cache of its own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    """A program that does as told: kind and a cluster of its own are not to be had everywhere."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def a_kind(folder: Path, clusters: str) -> Path:
    (folder / "clusters").write_text(clusters)
    calls = folder / "calls"
    stand_in(folder, "kind", KIND.format(calls=calls, clusters=folder / "clusters"))
    stand_in(folder, "kubectl", "#!/bin/sh\n")
    return calls


def archive(folder: Path) -> Path:
    pack(folder / "a.tar", "iggykube/a:1", {"a": b"a"}, command=["/a"])
    return folder / "a.tar"


def test_a_word_that_is_no_backend_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"E2E_BACKEND=minikube is none of own, kind and"):
        chosen({"E2E_BACKEND": "minikube"})


def test_the_own_cluster_must_be_up(programs: Path) -> None:
    with pytest.raises(ClusterError, match=r"not up; run: make cluster-up"):
        chosen({})


def test_kind_must_be_there(programs: Path) -> None:
    with pytest.raises(ClusterError, match=r"needs the program kind on PATH"):
        chosen({"E2E_BACKEND": "kind"})


def test_kind_makes_a_cluster_once(programs: Path) -> None:
    calls = a_kind(programs, clusters="")
    kubeconfig = Path(os.environ["XDG_CACHE_HOME"]) / "iggykube" / "e2e" / "kind.conf"

    backend = chosen({"E2E_BACKEND": "kind"})

    assert backend == Kind(str(programs / "kind"), str(programs / "kubectl"), kubeconfig)
    made = f"create cluster --name=iggykube-e2e --wait=120s --kubeconfig={kubeconfig}"
    assert calls.read_text().splitlines() == ["get clusters", made]


def test_a_cluster_of_kind_that_is_there_is_used(programs: Path) -> None:
    calls = a_kind(programs, clusters="other\niggykube-e2e\n")

    chosen({"E2E_BACKEND": "kind"})

    assert "create cluster" not in calls.read_text()
    assert "export kubeconfig --name=iggykube-e2e" in calls.read_text()


def test_kind_is_given_archives(programs: Path, tmp_path: Path) -> None:
    calls = a_kind(programs, clusters="iggykube-e2e")
    backend = chosen({"E2E_BACKEND": "kind"})

    backend.load([archive(tmp_path)])

    last = calls.read_text().splitlines()[-1]
    assert last == f"load image-archive {tmp_path / 'a.tar'} --name=iggykube-e2e"


def test_the_current_context_is_copied(programs: Path) -> None:
    stand_in(programs, "kubectl", '#!/bin/sh\ncase "$1" in config) echo "kind: Config" ;; esac\n')

    backend = chosen({"E2E_BACKEND": "current"})

    assert isinstance(backend, Current)
    assert backend.kubeconfig.read_text() == "kind: Config\n"
    assert backend.kubeconfig.stat().st_mode & 0o077 == 0, "it holds secrets"


def test_without_a_current_context_it_says_so(programs: Path) -> None:
    refuses = "#!/bin/sh\necho 'error: current-context must exist' >&2; exit 1\n"
    stand_in(programs, "kubectl", refuses)

    with pytest.raises(ClusterError, match=r"(?s)needs a current context: .*must exist"):
        chosen({"E2E_BACKEND": "current"})


def test_a_cluster_that_does_not_answer_is_named(programs: Path) -> None:
    answers = '#!/bin/sh\n[ "$1" = config ] || exit 1\n'
    stand_in(programs, "kubectl", answers)

    with pytest.raises(ClusterError, match="does not answer"):
        chosen({"E2E_BACKEND": "current"})


def test_nodes_out_of_reach_are_a_reason_to_skip(tmp_path: Path) -> None:
    unknown = Current("kubectl", tmp_path / "config", has_images=False)

    with pytest.raises(ImagesOutOfReach, match=r"iggykube/a:1.*E2E_IMAGES=present"):
        unknown.load([archive(tmp_path)])


def test_nodes_that_have_the_images_are_believed(tmp_path: Path) -> None:
    known = Current("kubectl", tmp_path / "config", has_images=True)

    known.load([archive(tmp_path)])

    assert e2e_backends.IMAGES_VARIABLE == "E2E_IMAGES"
