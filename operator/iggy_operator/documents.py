"""Files of resources, read with the place of every field, so that an error can point at it.

Reads YAML (and so JSON) as kubectl does: several documents in a file, documents of other groups are
left alone. Knows files and text, checks each document with `validation`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from iggy_operator import API_GROUP, API_VERSION
from iggy_operator.schema import schemas
from iggy_operator.secret_documents import Secret, is_secret, secret_problems, secret_values
from iggy_operator.validation import Checked, FieldPath, check, nearest, path_text

# The API server refuses more than 3 MiB a request; a file with many documents stays below this.
FILE_BYTES_MAX: Final = 8 << 20
# Per document. Aliases can make a small one unfold into a huge one; nesting can exhaust the stack.
VALUES_MAX: Final = 20_000
DEPTH_MAX: Final = 64
DEFAULT_NAMESPACE: Final = "default"
# The loader in C takes a tenth of the time; not every build of PyYAML has it.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        """As compilers and editors write it."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What is wrong, and where."""

    place: Place
    message: str
    field: str = ""

    def __str__(self) -> str:
        """File, line, column, field, message."""
        return f"{self.place}: {self.field + ': ' if self.field else ''}{self.message}"


class DocumentErrors(Exception):
    """Files that cannot be used, with every problem that was found."""

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        """`problems` in the order of files and lines."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Document:
    """One object of ours as it stands in a file."""

    value: Mapping[str, Any]
    places: Mapping[FieldPath, Place]
    """The place of each field; `()` is the document's first line."""

    @property
    def kind(self) -> str:
        """Kind, such as IggyTopic."""
        return str(self.value["kind"])

    @property
    def identity(self) -> tuple[str, str, str]:
        """Kind, namespace and name: what makes two documents the same object."""
        metadata = self.value["metadata"]
        return self.kind, metadata.get("namespace", DEFAULT_NAMESPACE), metadata["name"]

    def place_of(self, path: FieldPath) -> Place:
        """The place of a field, or of the nearest one around it."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def problem(self, path: FieldPath, message: str) -> FileProblem:
        """A problem at a field of this document."""
        return FileProblem(self.place_of(path), message, path_text(path))


@dataclass(frozen=True, slots=True)
class Loaded:
    """What files hold: our documents, checked and with defaults, and what was left alone."""

    documents: tuple[Document, ...]
    skipped: tuple[str, ...]
    """Documents of other groups, such as `v1 ConfigMap db (shop.yaml:3:1)`."""
    secrets: tuple[Secret, ...] = ()


def load_documents(
    paths: Iterable[Path], old: Mapping[tuple[str, str, str], Any] | None = None
) -> Loaded:
    """Read and check files and folders. Raises DocumentErrors with all problems of all files.

    `old` holds objects as they were applied last, by identity, for rules about changes.
    """
    problems: list[FileProblem] = []
    documents: list[Document] = []
    skipped: list[str] = []
    secrets: list[Document] = []
    for path in _files(paths, problems):
        for document in _parse(path, problems):
            if is_secret(document.value):
                secrets.append(document)
                problems += [document.problem(*item) for item in secret_problems(document.value)]
                continue
            if not _is_ours(document, problems, skipped):
                continue
            before = _old_value(document, old or {})
            checked = check(document.value, old=before)
            problems += [document.problem(item.path, item.message) for item in checked.problems]
            documents.append(_checked(document, checked))
    if not problems:
        problems += _twins([*documents, *secrets])
    if problems:
        raise DocumentErrors(sorted(problems, key=lambda item: (item.place.file, item.place.line)))
    return Loaded(tuple(documents), tuple(skipped), tuple(map(_secret, secrets)))


def _secret(document: Document) -> Secret:
    _, namespace, name = document.identity
    return Secret(namespace, name, secret_values(document.value))


def _checked(document: Document, checked: Checked) -> Document:
    return Document(checked.value, document.places)


def _old_value(document: Document, old: Mapping[tuple[str, str, str], Any]) -> Any:
    try:
        return old.get(document.identity)
    except (KeyError, TypeError, AttributeError):
        return None  # no usable metadata: `check` says so


def _files(paths: Iterable[Path], problems: list[FileProblem]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = [item for item in sorted(path.iterdir()) if item.suffix in _SUFFIXES]
            if not found:
                problems.append(FileProblem(Place(str(path)), "the folder holds no .yaml file"))
            yield from found
        else:
            yield path


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"the file is larger than {FILE_BYTES_MAX >> 20} MiB: split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not UTF-8 text (byte {error.start})") from error


def _parse(path: Path, problems: list[FileProblem]) -> Iterator[Document]:
    """The documents of one file; whatever is no mapping becomes a problem."""
    for node in _nodes(path, problems):
        builder = _Builder(str(path), problems)
        value = builder.build(node, ())
        if builder.failed or value is None:
            continue
        if isinstance(value, dict):
            yield Document(value, builder.places)
        else:
            message = "a document must be a mapping of fields"
            problems.append(FileProblem(builder.places[()], message))


def _nodes(path: Path, problems: list[FileProblem]) -> Iterator[Node]:
    """The top node of each document; none if the file cannot be read as a whole."""
    start = Place(str(path))
    try:
        text = _read(path)
        _check_depth(text)
        nodes = list(yaml.compose_all(text, Loader=LOADER))
    except OSError as error:
        problems.append(FileProblem(start, f"cannot be read: {error.strerror}"))
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(path, error))
    except ValueError as error:
        problems.append(FileProblem(start, str(error)))
    else:
        yield from (node for node in nodes if node is not None)


def _check_depth(text: str) -> None:
    """Before anything recursive looks at the text. Raises ValueError."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise ValueError(f"nested deeper than {DEPTH_MAX} levels in line {line}")


def _syntax_problem(path: Path, error: yaml.YAMLError) -> FileProblem:
    mark = getattr(error, "problem_mark", None)
    place = Place(str(path), mark.line + 1, mark.column + 1) if mark else Place(str(path))
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return FileProblem(place, f"this is not YAML: {what}")


class _Builder:
    """Turns one document's nodes into JSON values and notes their places."""

    def __init__(self, file: str, problems: list[FileProblem]) -> None:
        self.places: dict[FieldPath, Place] = {}
        self.failed = False
        self._file = file
        self._problems = problems
        self._count = 0
        self._constructor = yaml.SafeLoader("")

    def build(self, node: Node, path: FieldPath) -> Any:
        """The value of a node; a problem and None where there is none."""
        self._count += 1
        self.places.setdefault(path, self._place(node))
        if self.failed:
            return None
        if self._count > VALUES_MAX or len(path) > DEPTH_MAX:
            return self._fail(node, path, f"more than {VALUES_MAX} values or {DEPTH_MAX} levels")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode), "YAML has no fourth kind of node"
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[str, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, ScalarNode)]
        for index, (key, _) in enumerate(node.value):
            if isinstance(key, ScalarNode) and key.value in keys[:index] and key.value != "<<":
                self._fail(key, (*path, key.value), "stands here twice: remove one of them")
        self._constructor.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                self._fail(key, path, "a field's name must be a text")
                continue
            child = (*path, key.value)
            self.places[child] = self._place(key)
            result[key.value] = self.build(item, child)
        return result

    def _scalar(self, node: ScalarNode, path: FieldPath) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        # YAML 1.1 reads 12:30 as a number to base 60; nobody means that.
        if kind in ("str", "timestamp", "value") or (
            kind in ("int", "float") and ":" in node.value
        ):
            return node.value
        if kind not in ("int", "float", "bool", "null"):
            return self._fail(node, path, f"{node.tag} is no plain value: write text or a number")
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return self._fail(node, path, f"{node.value[:40]!r} is not a number")
        if isinstance(value, float) and not math.isfinite(value):
            return self._fail(node, path, f"{node.value} is not a number that can be stored")
        return value

    def _place(self, node: Node) -> Place:
        mark = node.start_mark
        return Place(self._file, mark.line + 1, mark.column + 1)

    def _fail(self, node: Node, path: FieldPath, message: str) -> None:
        if not self.failed:
            self._problems.append(FileProblem(self._place(node), message, path_text(path)))
        self.failed = True


def _is_ours(document: Document, problems: list[FileProblem], skipped: list[str]) -> bool:
    """Whether this is one of our kinds. A near miss is a problem, a foreign one is noted."""
    api_version, kind = document.value.get("apiVersion"), document.value.get("kind")
    kinds = list(schemas())
    if kind in kinds:
        if api_version == API_VERSION:
            return True
        problems.append(
            document.problem(("apiVersion",), f"must be {API_VERSION}, is {api_version!r}")
        )
        return False
    if not isinstance(kind, str) or not isinstance(api_version, str):
        missing = "apiVersion" if isinstance(kind, str) else "kind"
        example = API_VERSION if missing == "apiVersion" else "one of " + ", ".join(kinds)
        problems.append(document.problem((missing,), f"is missing: set it to {example}"))
        return False
    close = nearest(kind, kinds)
    if api_version.partition("/")[0] == API_GROUP or close:
        hint = f"did you mean {close}?" if close else "known: " + ", ".join(kinds)
        problems.append(document.problem(("kind",), f"unknown kind {kind!r}, {hint}"))
        return False
    metadata = document.value.get("metadata")
    name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
    skipped.append(f"{api_version} {kind} {name} ({document.places[()]})")
    return False


def _twins(documents: Sequence[Document]) -> Iterator[FileProblem]:
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        kind, namespace, name = document.identity
        first = seen.setdefault(document.identity, document)
        if first is not document:
            where = first.places[()]
            message = (
                f"{kind} {name} in namespace {namespace} stands already in {where}: remove one"
            )
            yield document.problem(("metadata", "name"), message)
