"""Rules about the tree that no linter knows."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("wire", "broker", "operator", "spark", "cli", "demo", "bench", "images")
MODULE_LINES_MAX = 400
TEST_MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_operator_holds_its_package_and_nothing_else() -> None:
    # A module beside the package would shadow or break the standard library's `operator`.
    found = {path.name for path in (ROOT / "operator").iterdir()} - {"__pycache__"}

    assert found == {"iggy_operator"}


def test_no_package_under_tests() -> None:
    support = ROOT / "tests" / "support"  # helpers may be packages, tests may not
    found = [
        shown(path)
        for path in (ROOT / "tests").rglob("__init__.py")
        if not path.is_relative_to(support)
    ]

    assert found == [], "tests are found by their path, never imported as packages"


def test_test_modules_have_different_names() -> None:
    names: dict[str, list[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        names.setdefault(path.name, []).append(shown(path))

    doubles = {name: paths for name, paths in names.items() if len(paths) > 1}

    assert doubles == {}


@pytest.mark.parametrize("path", list(modules(*CODE, "tests")), ids=shown)
def test_modules_are_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())

    is_test = path.is_relative_to(ROOT / "tests")
    assert lines <= (TEST_MODULE_LINES_MAX if is_test else MODULE_LINES_MAX)


@pytest.mark.parametrize("path", list(modules(*CODE)), ids=shown)
def test_functions_fit_a_screen(path: Path) -> None:
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert long == []


@pytest.mark.parametrize(
    "path", [path for path in modules("tests") if path.name.startswith("test_")], ids=shown
)
def test_every_test_can_fail(path: Path) -> None:
    """A test asserts something, expects an error, or calls a helper that does."""
    helpers = {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("test_")
        and asserts(node)
    }
    idle = [node.name for node in functions_that_test(path) if not asserts(node, helpers)]

    assert idle == [], "tests that assert nothing"


def functions_that_test(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]


def asserts(function: ast.AST, helpers: Collection[str] = ()) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rsplit(".", 1)[-1]
            called = name.lstrip("_")
            if (
                name in helpers
                or called in ("raises", "warns", "fail")
                or called.startswith(("assert", "check", "expect", "same", "must"))
            ):
                return True
    return False


def test_nothing_that_is_made_is_kept() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    suffixes = (".so", ".pyc", ".whl", ".egg-info")

    made = [name for name in tracked.stdout.splitlines() if name.endswith(suffixes)]

    assert made == []


def test_the_lock_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    assert "://" not in lock
    assert "--index-url" not in lock
    assert lock.count("--hash=sha256:") > 100


def test_the_lock_has_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *(one for extra in project["project"]["optional-dependencies"].values() for one in extra),
        *project["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0].lower() for one in wanted}
    locked = re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.M)

    assert sorted(names - {"iggykube"} - set(locked)) == [], "run: make lock"
