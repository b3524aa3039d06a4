"""The pages of docs/reference that are tables: words, settings and metrics, the index."""

from collections.abc import Mapping, Sequence
from typing import Any

from iggy_operator import words
from iggy_operator.program.metrics import FAMILIES
from iggy_operator.program.settings import SETTINGS
from iggy_operator.reasons import Reason


def words_page(condition_fields: Sequence[str]) -> str:
    """Conditions, reasons, events, annotations, labels."""
    lines = [
        "# Words",
        "",
        "What stands on objects besides the fields of their kinds. Programs may depend on each of",
        "these words.",
        "",
        "## Conditions",
        "In `status.conditions`; `kubectl wait --for=condition=Ready igt/NAME` waits for one.",
        "",
        *table(words.CONDITIONS, head="condition"),
        "",
        "Each one has these fields:",
        "",
        *condition_fields,
        "",
        "## Reasons",
        "`reason` of a condition, and of the events that tell of its changes.",
        "",
        "| reason | what it means | what to do |",
        "|---|---|---|",
        *(
            f"| `{reason}` | {reason.meaning} | {reason.remedy} |"
            for reason in Reason
            if reason not in words.RESERVED
        ),
        "",
        "## Events",
        "Transitions of conditions are told with the condition's reason, one event for each object",
        "and reason in ten minutes. Besides, there are",
        "",
        *table(words.EVENTS, head="event"),
        "",
        "## Annotations",
        f"Set by people on the objects, each below `{words.PREFIX}`:",
        "`kubectl annotate igt orders iggykube.dev/paused=true`.",
        "",
        *table(words.ANNOTATIONS, head="annotation"),
        "",
        "## Labels",
        "On all that the operator makes, besides the recommended `app.kubernetes.io/` labels.",
        "Labels and annotations of an object are not copied to what is made for it.",
        "",
        *table(words.LABELS, head="label"),
        "",
        "## Finalizer",
        f"`{words.FINALIZER.word}`. {words.FINALIZER.meaning}.",
    ]
    return "\n".join(lines)


def table(rows: Sequence[words.Word], *, head: str) -> list[str]:
    """Words with their kinds."""
    lines = [f"| {head} | on | meaning |", "|---|---|---|"]
    for row in rows:
        kinds = "all" if row.kinds == words.ALL else ", ".join(row.kinds)
        lines.append(f"| `{row.word}` | {kinds} | {row.meaning} |")
    return lines


def operator_page() -> str:
    """Settings and metrics of the operator program."""
    lines = [
        "# The operator program",
        "",
        "The chart sets it all from its values; by hand it is `iggy-operator` with variables.",
        "",
        "## Settings",
        "| variable | default | meaning |",
        "|---|---|---|",
        *(
            f"| `{item.variable}` | {f'`{item.default}`' if item.default else ''} "
            f"| {cell(item.meaning)} |"
            for item in SETTINGS
        ),
        "",
        "## Metrics",
        "At `/metrics` of the HTTP port, in Prometheus' format, without a login. `/healthz` and",
        "`/readyz` are beside it, for probes.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{item.name}` | {item.kind} | {', '.join(f'`{label}`' for label in item.labels)} "
            f"| {cell(item.meaning)} |"
            for item in FAMILIES
        ),
    ]
    return "\n".join(lines)


def cell(text: str) -> str:
    """A sentence as a cell of a table."""
    return text.rstrip(".").replace("|", "\\|")


def index_page(definitions: Sequence[Mapping[str, Any]]) -> str:
    """What there is."""
    lines = [
        "# Reference",
        "",
        "Every field, word, setting and metric, made from the code. In a terminal",
        "`kubectl explain igt.spec.retention` tells the same of fields.",
        "",
        "| page | what it is |",
        "|---|---|",
    ]
    for definition in definitions:
        names = definition["spec"]["names"]
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        lines.append(f"| [{names['kind']}]({names['singular']}.md) | {schema['description']} |")
    lines += [
        "| [Words](words.md) | conditions, reasons, events, annotations, labels |",
        "| [Operator](operator.md) | settings of the operator program, and its metrics |",
        "| [Operations](../operations.md) | settings of the broker, its metrics and alerts |",
        "| [Reading with Spark](../spark-reading.md#options) | options of the data source |",
    ]
    return "\n".join(lines)
