"""What the test cluster says about a machine that cannot carry it, and what it would run there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from e2e_cluster import containers, machine, places, rendered, tools
from e2e_cluster.components import components
from e2e_cluster.containers import mounts_below
from e2e_cluster.places import Places
from e2e_cluster.probes import port_taken
from e2e_cluster.program import main
from e2e_cluster.tools import BUILDS, Build, command
from e2e_cluster.trouble import ClusterError


def nothing_runs(component: str) -> bool:
    return False


def test_a_user_who_is_not_root_is_told_the_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"needs root.*E2E_BACKEND=current"):
        machine.check(nothing_runs)


def test_missing_programs_are_named_with_the_command_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ClusterError) as failure:
        machine.check(nothing_runs)

    lines = str(failure.value).splitlines()
    wanted = "  conntrack is missing (Debian's package conntrack); run: .ci/machine --e2e --install"
    assert wanted in lines
    assert any(line.startswith("  containerd is missing") for line in lines)


def test_a_taken_port_is_named_with_its_component(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(places, "PORTS", (("kube-apiserver", "127.0.0.1", port),))

        foreign = list(machine.taken_ports(nothing_runs))
        own = list(machine.taken_ports(lambda component: component == "kube-apiserver"))

    (said,) = foreign
    assert said.startswith(f"port {port} of 127.0.0.1, which kube-apiserver needs, is taken")
    assert "ss -ltnp" in said
    assert own == []


def test_an_address_that_is_not_there_yet_has_free_ports() -> None:
    assert not port_taken("198.51.100.1", 6443)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cgroup.controllers": "cpu memory pids"}, {"cpu", "memory", "pids"}),
        ({"cpu/": "", "memory/": ""}, {"cpu", "memory"}),
        ({}, set()),
    ],
)
def test_controllers_are_seen_in_both_hierarchies(
    tmp_path: Path, files: dict[str, str], expected: set[str]
) -> None:
    for name, text in files.items():
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text(text)

    assert machine.controllers(tmp_path) == expected


def test_only_mounts_below_the_clusters_folders_are_ours() -> None:
    table = (
        "tmpfs /run tmpfs rw 0 0\n"
        "overlay /run/ours/a\\040b overlay rw 0 0\n"
        "tmpfs /run/ours-not tmpfs rw 0 0\n"
        "tmpfs /run/ours tmpfs rw 0 0\n"
    )

    assert mounts_below(table, Path("/run/ours")) == ["/run/ours/a b", "/run/ours"]


def test_a_build_names_its_version_and_stamps() -> None:
    by_package = Build("a", "1.2", ("a",), package="example.org/a", stamps=(("x.v", "v1.2"),))

    assert command(by_package)[-2:] == ["-s -w -X x.v=v1.2", "example.org/a@v1.2"]


def test_what_is_in_the_cache_is_not_built_again(tmp_path: Path) -> None:
    where = Places(tmp_path)
    for build in BUILDS[1:]:
        for program in build.programs:
            path = where.program(program, build.version)
            path.parent.mkdir(parents=True)
            path.touch()

    assert [build.name for build in tools.missing(where)] == ["helm"]


def test_modules_build_the_versions_that_are_named() -> None:
    kubernetes = (places.SOURCES / "kubernetes" / "go.mod").read_text()
    etcd = (places.SOURCES / "etcd" / "go.mod").read_text()

    assert f"k8s.io/kubernetes v{places.KUBERNETES} " in kubernetes
    assert f"k8s.io/api => k8s.io/api v0.{places.KUBERNETES.partition('.')[2]}\n" in kubernetes
    assert f"go.etcd.io/etcd/server/v3 v{places.ETCD}\n" in etcd
    coredns = (places.SOURCES / "coredns" / "go.mod").read_text()
    assert f"github.com/coredns/coredns v{places.COREDNS}\n" in coredns


def test_every_component_listens_here_and_nowhere_else(tmp_path: Path) -> None:
    words = [word for one in components(Places(tmp_path)) for word in one.command]

    assert not [word for word in words if "0.0.0.0" in word]
    assert f"--bind-address={places.BRIDGE_ADDRESS}" in words
    assert rendered.kubelet(Places(tmp_path))["address"] == places.BRIDGE_ADDRESS


def test_the_audit_log_has_deletions_of_everybody_with_what_was_asked() -> None:
    rules = rendered.audit_policy()["rules"]

    deletions = [rule for rule in rules if "delete" in rule.get("verbs", [])]

    assert deletions == [{"level": "Request", "verbs": ["delete", "deletecollection"]}]
    silent = [rule for rule in rules if rule["level"] == "None"]
    assert all("delete" not in rule.get("verbs", []) for rule in silent)


def test_status_of_a_cluster_that_is_down_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    code = main(["status"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert len(lines) == len(components(Places(tmp_path)))
    assert all(line.endswith(" down") for line in lines)


def test_a_machine_that_lacks_something_is_told_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")

    code = main(["check"])

    assert code == 1
    assert "cluster: this machine cannot carry the cluster:" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["load", str(tmp_path / "broker.tar")])

    assert code == 1
    assert "broker.tar does not exist; make it: make images" in capsys.readouterr().err


def test_only_folders_that_were_not_there_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    where = Places(tmp_path)
    where.run.mkdir()
    old.mkdir()
    monkeypatch.setattr(containers, "FOLDERS", (str(old), str(new)))

    containers.note_folders(where)
    (new / "made").mkdir(parents=True)
    containers.note_folders(where)  # a later `up` finds both
    containers.remove_folders(where)

    assert (old.exists(), new.exists()) == (True, False)


def test_pods_together_weigh_more_than_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cpu", "memory"):
        (tmp_path / name / containers.GROUP).mkdir(parents=True)
    shares = tmp_path / "cpu" / containers.GROUP / "cpu.shares"
    shares.write_text("1024")
    monkeypatch.setattr(containers, "CGROUPS", tmp_path)

    containers.make_groups()

    assert shares.read_text() == containers.WEIGHTS["cpu.shares"]
    assert not list((tmp_path / "memory" / containers.GROUP).iterdir())
