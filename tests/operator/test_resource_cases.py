import pytest

from iggy_operator.schema import schemas, with_defaults
from iggy_operator.validation import check, path_text, pattern_rule
from resource_case import Case
from resource_cases import CASES
from schema_samples import nodes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_document_is_judged_as_the_table_says(case: Case) -> None:
    old = None
    if case.old is not None:
        old_checked = check(case.old)
        assert not old_checked.problems, "the old object must have been acceptable"
        old = old_checked.value

    problems = check(case.value, old=old).problems

    found = [(path_text(item.path) or "<root>", item.message) for item in problems]
    assert bool(found) != case.is_accepted, found
    if not case.is_accepted:
        assert any(path == case.path and case.words in message for path, message in found), found


def test_every_accepted_document_is_a_fixed_point_of_defaulting() -> None:
    for case in CASES:
        if case.is_accepted:
            value = check(case.value).value

            again = with_defaults(value, schemas()[value["kind"]].root)

            assert again == value


def test_every_rule_of_the_schemas_refuses_something_in_the_table() -> None:
    told = set()
    for case in CASES:
        old = None if case.old is None else check(case.old).value
        told |= {problem.message for problem in check(case.value, old=old).problems}

    silent = {
        f"{schema.kind}{path}: {rule['message']}"
        for schema in schemas().values()
        for path, node in nodes(schema.root)
        for rule in node.get("x-kubernetes-validations", ())
        if rule["message"] not in told and rule["rule"] != pattern_rule(node.get("pattern", ""))
    }

    assert silent == set()
