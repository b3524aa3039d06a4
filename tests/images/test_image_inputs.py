"""When an image is built again: when what it is made of has changed, and only then."""

from pathlib import Path

import pytest

from image_builder import inputs

NATIVE = {"stage": "broker", "platform": "linux/amd64", "base": "debian:bookworm-slim"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / ".dockerignore").write_text("*\n!wire\n!setup.py\n**/__pycache__\n**/*.so\n")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "wire/deep/__pycache__").mkdir(parents=True)
    (tmp_path / "wire/deep/a.py").write_text("a = 1\n")
    return tmp_path


def fingerprint(tree: Path) -> str:
    return inputs.fingerprint(tree, **NATIVE)


def test_the_same_files_have_the_same_fingerprint(tree: Path) -> None:
    assert fingerprint(tree) == fingerprint(tree)


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore", "setup.py", "wire/deep/a.py"])
def test_a_changed_file_changes_it(tree: Path, name: str) -> None:
    before = fingerprint(tree)

    with (tree / name).open("a") as file:
        file.write("# changed\n")

    assert fingerprint(tree) != before


def test_a_new_file_a_new_name_and_a_new_mode_change_it(tree: Path) -> None:
    seen = {fingerprint(tree)}

    (tree / "wire/b.py").write_text("")
    seen.add(fingerprint(tree))
    (tree / "wire/b.py").rename(tree / "wire/c.py")
    seen.add(fingerprint(tree))
    (tree / "wire/c.py").chmod(0o755)
    seen.add(fingerprint(tree))

    assert len(seen) == 4


def test_what_no_image_sees_does_not(tree: Path) -> None:
    before = fingerprint(tree)

    (tree / "docs.md").write_text("new")
    (tree / "wire/deep/__pycache__/a.pyc").write_bytes(b"new")
    (tree / "wire/deep/_kernel.so").write_bytes(b"new")

    assert fingerprint(tree) == before


@pytest.mark.parametrize("what", [{"stage": "spark"}, {"platform": "linux/arm64"}, {"base": "x"}])
def test_stage_processor_and_base_count(tree: Path, what: dict[str, str]) -> None:
    assert inputs.fingerprint(tree, **{**NATIVE, **what}) != fingerprint(tree)


def test_the_real_context_is_sources_and_nothing_made() -> None:
    root = Path(__file__).resolve().parents[2]

    names = [str(path.relative_to(root)) for path in inputs.files(root)]

    assert {"setup.py", "requirements.lock", "wire/iggy_wire/_xxh3.h"} <= set(names)
    assert not [name for name in names if name.endswith((".so", ".pyc", "_kernel.c"))]
    assert not [name for name in names if name.startswith((".venv", "tests", "docs", ".git"))]
