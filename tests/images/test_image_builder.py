"""`make images` without a builder: what it says, and which commands it would give to one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from image_builder import __main__ as program
from image_builder import base, builders, inputs, machine
from image_builder.trouble import ImageError

# A builder that has every image and writes down what it was asked to do.
RECORDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$RECORD"
for word; do
    case "$word" in
    dir:*) echo '{"mediaType": "application/x"}' >"${word#dir:}/manifest.json" ;;
    --output=*) touch "${word#--output=}" ;;
    esac
done
[ "$1" != "$REFUSED" ]
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "record"
    file.touch()
    monkeypatch.setenv("RECORD", str(file))
    monkeypatch.setenv("REFUSED", "")
    monkeypatch.delenv(builders.VARIABLE, raising=False)
    return file


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project to build images of; the real one may be edited meanwhile."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "Dockerfile").write_text("FROM scratch\n")
    (root / ".dockerignore").write_text("*\n!pyproject.toml\n")
    (root / "pyproject.toml").write_text('[project]\nversion = "7.1"\n')
    monkeypatch.setattr(program, "ROOT", root)
    return root


@pytest.fixture
def install(
    tmp_path: Path, tree: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Makes the named builders the only ones of the machine."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def make(*names: str) -> None:
        for name in builders.KNOWN:
            body = RECORDER if name in names else "#!/bin/sh\nexit 1\n"
            (tools / name).write_text(body)
            (tools / name).chmod(0o755)

    return make


def asked(record: Path, verb: str) -> list[list[str]]:
    rows = [line.split() for line in record.read_text().splitlines()]
    return [row for row in rows if row[1] == verb]


def test_without_a_builder_it_says_what_to_install(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install()

    code = program.main(["--folder", str(tmp_path)])

    assert code == 1
    said = capsys.readouterr().err
    assert "no program that builds images works here" in said
    assert "apt-get install buildah" in said


def test_an_unknown_builder_or_image_is_named(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install("buildah")
    monkeypatch.setenv(builders.VARIABLE, "kaniko")

    with pytest.raises(ImageError, match="kaniko: use one of buildah, podman, docker"):
        builders.choose()
    with pytest.raises(ImageError, match="sprak: no such image; there are broker, operator, spark"):
        program.make(program.parser().parse_args(["sprak", "--folder", str(tmp_path)]))


def test_a_variant_is_built_when_it_is_named(
    install: Callable[..., None], record: Path, tmp_path: Path
) -> None:
    install("buildah")

    assert program.main(["spark-4.1", "--folder", str(tmp_path)]) == 0

    (row,) = asked(record, "build")
    assert row[row.index("--target") + 1] == "spark-4.1"
    assert row[row.index("--tag") + 1] == "iggykube/spark-4.1:7.1"
    assert (tmp_path / "spark-4.1.tar").exists()


@pytest.mark.parametrize("name", builders.KNOWN)
def test_each_image_is_built_once_and_again_when_something_changed(
    install: Callable[..., None], record: Path, tree: Path, tmp_path: Path, name: str
) -> None:
    install(name)
    folder = tmp_path / "archives"

    first = program.main(["--folder", str(folder)])
    built = asked(record, "build")
    again = program.main(["--folder", str(folder)])

    assert (first, again) == (0, 0)
    assert [row[row.index("--target") + 1] for row in built] == list(inputs.STAGES)
    assert asked(record, "build") == built
    assert {path.name for path in folder.glob("*.tar")} == {
        "broker.tar",
        "operator.tar",
        "spark.tar",
    }

    (tree / "pyproject.toml").write_text('[project]\nversion = "7.2"\n')
    program.main(["spark", "--folder", str(folder)])

    (row,) = asked(record, "build")[3:]
    assert row[row.index("--target") + 1] == "spark"
    assert row[row.index("--tag") + 1] == "iggykube/spark:7.2"
    assert "VERSION=7.2" in row


def test_a_failed_build_shows_what_was_said_and_is_not_taken_for_done(
    install: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    install("buildah")
    folder = tmp_path / "archives"
    program.main(["broker", "--folder", str(folder)])
    monkeypatch.setenv("REFUSED", "build")

    failed = program.main(["broker", "--force", "--folder", str(folder)])
    monkeypatch.setenv("REFUSED", "")
    program.main(["broker", "--folder", str(folder)])

    assert failed == 1
    said = capsys.readouterr()
    assert "buildah build failed (exit code 1)" in said.err
    assert "nothing changed" not in said.out


def test_force_takes_up_updates_which_later_builds_keep(
    install: Callable[..., None], record: Path, tree: Path, tmp_path: Path
) -> None:
    install("buildah")
    folder = tmp_path / "archives"

    program.main(["broker", "--folder", str(folder)])
    program.main(["broker", "--force", "--folder", str(folder)])
    (tree / "pyproject.toml").write_text('[project]\nversion = "7.2"\n')
    program.main(["broker", "--folder", str(folder)])

    first, forced, later = (
        next(word for word in row if word.startswith("REFRESHED="))
        for row in asked(record, "build")
    )
    assert first == "REFRESHED=never"
    assert forced.startswith("REFRESHED=20")
    assert later == forced


def test_another_processor_has_an_archive_of_its_own(
    install: Callable[..., None], record: Path, tmp_path: Path
) -> None:
    install("docker")
    other = "linux/s390x"

    program.main(["broker", "--platform", other, "--folder", str(tmp_path)])

    (row,) = asked(record, "build")
    assert row[row.index("--platform") + 1] == other
    assert (tmp_path / "broker-linux-s390x.tar").exists()


def test_without_a_registry_another_processor_needs_an_emulator(
    install: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    install("buildah")
    monkeypatch.setenv("REFUSED", "pull")

    code = program.main(["broker", "--platform", "linux/s390x", "--folder", str(tmp_path)])

    assert code == 1
    assert "apt-get install qemu-user-static" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "text", "runs"),
    [
        ("qemu-aarch64", "enabled\ninterpreter /usr/bin/qemu-aarch64\n", True),
        ("qemu-aarch64", "disabled\n", False),
        ("qemu-s390x", "enabled\n", False),
    ],
)
def test_an_emulator_that_the_kernel_starts_runs_another_processors_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entry: str, text: str, runs: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / entry).write_text(text)

    assert builders.Builder("buildah", {}).runs("linux/arm64", tmp_path) is runs
    assert builders.Builder("buildah", {}).runs("linux/amd64", tmp_path)


def test_what_the_machine_knows_is_handed_in_as_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "index-of-the-house")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("https_proxy", "proxy:3128")
    certificates = tmp_path / "ca.pem"
    certificates.touch()
    monkeypatch.setenv("PIP_CERT", str(certificates))

    words = list(machine.secrets(tmp_path))
    arguments = list(machine.proxy_arguments())

    assert f"id=pip,src={tmp_path}/pip.conf" in words
    assert f"id=ca,src={certificates}" in words
    assert "index-url = index-of-the-house" in (tmp_path / "pip.conf").read_text().splitlines()
    assert arguments[arguments.index("https_proxy=proxy:3128") - 1] == "--build-arg"
    assert not any("index-of-the-house" in word for word in words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "sources.list",
            "deb http://mirror/debian bookworm main\ndeb http://other/ bookworm main\n",
        ),
        (
            "sources.list",
            "# deb http://old bookworm\ndeb [signed-by=/k] http://mirror/debian bookworm main\n",
        ),
        (
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\n",
        ),
    ],
)
def test_the_mirror_of_this_machine_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)

    assert base.mirror(tmp_path) == ["http://mirror/debian"]


def test_other_peoples_packages_do_not_go_into_the_base(tmp_path: Path) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    key = "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    (folder / "debian.sources").write_text(f"URIs: http://mirror/debian\nSuites: bookworm\n{key}")
    key = "Signed-By: /etc/apt/keyrings/company.asc\n"
    (folder / "company.sources").write_text(f"URIs: http://company/\nSuites: bookworm\n{key}")

    assert base.mirror(tmp_path) == ["http://mirror/debian"]


def test_a_mirror_of_another_system_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://mirror/ubuntu noble main\n")

    assert base.mirror(tmp_path) == []
