"""The pages of docs/reference, made from the resource definitions and from tables in the code.

.venv/bin/python tests/support/reference_pages.py      writes them (`make reference`)
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

import reference_tables
from iggy_operator import words
from iggy_operator.documents import LOADER
from iggy_operator.schema import crd_texts
from iggy_operator.validation import PATTERN_FIXES, pattern_rule

Node: TypeAlias = Mapping[str, Any]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
LINE_CHARACTERS_MAX = 120
NOTE = "<!-- Made from the code by `make reference`: change that, not this page. -->"
# Blocks that have a page or a section elsewhere.
ELSEWHERE = {
    (
        "IggyTopic",
        "spec.sinks[]",
    ): "its `name`, and the fields of [IggySink](iggysink.md#spec) but `topicRef`",
    (
        "IggyTopic",
        "spec.sources[]",
    ): "its `name`, and the fields of [IggySource](iggysource.md#spec) but `topicRef`",
    ("*", "status.conditions[]"): "see [Words](words.md#conditions)",
}
PLAIN_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
}


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    definitions = [yaml.load(text, Loader=LOADER) for _, text in crd_texts()]
    made = {f"{item['spec']['names']['singular']}.md": kind_page(item) for item in definitions}
    made["words.md"] = reference_tables.words_page(condition_rows(definitions[0]))
    made["operator.md"] = reference_tables.operator_page()
    made["README.md"] = reference_tables.index_page(definitions)
    return {name: NOTE + "\n" + text.rstrip() + "\n" for name, text in made.items()}


def kind_page(definition: Node) -> str:
    """One kind: names, columns, every field of spec and status."""
    kind = definition["spec"]["names"]["kind"]
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lines = [
        f"# {kind}",
        "",
        *wrapped(root["description"]),
        "",
        *wrapped(names_and_columns(definition)),
        "",
        *bullets(rule["message"] for rule in root.get("x-kubernetes-validations", ())),
        *block(kind, "spec", root["properties"]["spec"]),
        *block(kind, "status", root["properties"]["status"]),
        *own_words(kind),
    ]
    return "\n".join(lines)


def names_and_columns(definition: Node) -> str:
    """What to type, and what `kubectl get` shows."""
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    columns = version["additionalPrinterColumns"]
    shown = [item["name"] for item in columns if not item.get("priority")]
    wide = [item["name"] for item in columns if item.get("priority")]
    return (
        f"`{spec['group']}/{version['name']}`, resource `{names['plural']}`, short "
        f"`{names['shortNames'][0]}`, category `{names['categories'][0]}`. `kubectl get` shows "
        f"{', '.join(shown)}; with `-o wide` also {', '.join(wide)}."
    )


def own_words(kind: str) -> Iterator[str]:
    """Which conditions, events and annotations the kind has."""
    yield "## Words"
    yield "Each one is explained in [Words](words.md)."
    yield ""
    for title, rows in (
        ("Conditions", words.CONDITIONS),
        ("Events besides the reasons of conditions", words.EVENTS),
        (f"Annotations, below `{words.PREFIX}`", words.ANNOTATIONS),
    ):
        own = [f"`{row.word}`" for row in rows if kind in row.kinds]
        if own:
            yield from wrapped(f"- {title}: {', '.join(own)}")


def block(kind: str, path: str, node: Node) -> Iterator[str]:
    """A section for an object, then those of the objects in it."""
    yield f"{'##' if '.' not in path else '###'} {path}"
    yield from wrapped(node["description"])
    yield ""
    rules = [rule for rule in node.get("x-kubernetes-validations", ()) if not rule.get("fieldPath")]
    yield from bullets(rule["message"] for rule in rules if rule["rule"] != "self == oldSelf")
    inner = []
    for name, child in node["properties"].items():
        yield from field(name, child, node)
        below, child_path = item_of(child), f"{path}.{name}"
        if child["type"] == "array":
            child_path += "[]"
        elsewhere = ELSEWHERE.get((kind, child_path)) or ELSEWHERE.get(("*", child_path))
        if elsewhere:
            yield f"  - each: {elsewhere}"
        elif below.get("properties"):
            inner.append((child_path, below))
    yield ""
    for child_path, child in inner:
        yield from block(kind, child_path, child)


def item_of(node: Node) -> Node:
    """What a list holds, or the node itself."""
    items: Node = node.get("items", node)
    return items


def field(name: str, node: Node, parent: Node) -> Iterator[str]:
    """One field: type, default, whether it can change, what it means, what is refused."""
    facts = [type_words(node)]
    if name in parent.get("required", ()):
        facts.append("required")
    if "default" in node and not isinstance(node["default"], dict):
        facts.append(f"default `{shown(node['default'])}`")
    if is_fixed(name, node, parent):
        facts.append("cannot change")
    yield from wrapped(f"- **`{name}`** ({', '.join(facts)}): {node['description']}", hanging="  ")
    rules = node.get("x-kubernetes-validations", ()) if node["type"] != "object" else ()
    # What a pattern means stands in the type.
    own = [rule for rule in rules if rule["rule"] != pattern_rule(node.get("pattern", ""))]
    around = parent.get("x-kubernetes-validations", ())
    pointed = [rule for rule in around if rule.get("fieldPath", "").lstrip(".") == name]
    for rule in (*own, *pointed):
        yield from wrapped(f"  - {rule['message']}", hanging="    ")


def is_fixed(name: str, node: Node, parent: Node) -> bool:
    """Whether a rule refuses every change."""
    own = [rule["rule"] for rule in node.get("x-kubernetes-validations", ())]
    around = [rule["rule"] for rule in parent.get("x-kubernetes-validations", ())]
    return "self == oldSelf" in own or any(
        re.search(rf"self\.{name} == oldSelf\.{name}\b", rule) for rule in around
    )


def type_words(node: Node) -> str:
    """The type with its limits, for people."""
    kind = node.get("type", "")
    if "enum" in node:
        return "one of " + ", ".join(f"`{item}`" for item in node["enum"])
    if kind == "array":
        items = node["items"]
        what = "blocks" if items.get("type") == "object" else plural(type_words(items))
        return f"list of {what}" + (f", at most {node['maxItems']}" if "maxItems" in node else "")
    if kind == "object":
        return object_words(node)
    if kind == "string":
        return text_words(node)
    return PLAIN_TYPES[kind] + bounds_words(node)


def bounds_words(node: Node) -> str:
    """What a number may be. That a count is not negative goes without saying."""
    low, high = node.get("minimum"), node.get("maximum")
    if high is not None:
        return f" from {low} to {high}"
    return f", at least {low}" if low else ""


def plural(text: str) -> str:
    """Good enough for the words above; limits of the parts are left out."""
    return re.sub(r"^(text|name|network|whole number)", r"\1s", text.partition(", at most")[0])


def object_words(node: Node) -> str:
    """A map, a block with fields of its own, or whatever Kubernetes has there."""
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        return f"map of {plural(type_words(extra))}, at most {node['maxProperties']}"
    return "any fields" if node.get("x-kubernetes-preserve-unknown-fields") else "block"


def text_words(node: Node) -> str:
    """A text, by what its pattern means."""
    if node.get("format") == "date-time":
        return "time"
    fix = PATTERN_FIXES.get(node.get("pattern", ""), "").removeprefix("must be ")
    if fix.startswith("lower-case"):
        return "name"
    if fix.startswith("must"):
        return f"text that {fix}"
    if fix:
        return re.sub(r"^an? ", "", fix)
    limit = node.get("maxLength")
    return f"text, at most {limit:,} characters" if limit else "text"


def condition_rows(definition: Node) -> list[str]:
    """The fields of a condition, which are the same everywhere."""
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    node = root["properties"]["status"]["properties"]["conditions"]["items"]
    return [line for name, child in node["properties"].items() for line in field(name, child, {})]


def shown(value: object) -> str:
    """A value as YAML writes it."""
    return str(value) if isinstance(value, str) and value else json.dumps(value)


def bullets(sentences: Iterable[str]) -> list[str]:
    """Rules of a whole block, with an empty line behind them."""
    lines = [line for text in sentences for line in wrapped(f"- Rule: {text}", hanging="  ")]
    return [*lines, ""] if lines else []


def wrapped(text: str, *, hanging: str = "") -> list[str]:
    """Lines of readable length."""
    return textwrap.wrap(
        text,
        LINE_CHARACTERS_MAX,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def write() -> None:
    """Bring the folder up to date."""
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)
    for stray in FOLDER.glob("*.md"):
        if stray.name not in wanted:
            stray.unlink()


if __name__ == "__main__":
    write()
