import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_operator.validation import Checked, check
from resource_cases import CASES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
ACCEPTED = [case.value for case in CASES if case.is_accepted]
OLD = {value["kind"]: check(value).value for value in ACCEPTED}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    )
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in places(value[key])]


@settings(deadline=None)
@given(data=st.data())
def test_whatever_stands_in_a_field_is_accepted_or_refused(data: st.DataObject) -> None:
    value = copy.deepcopy(dict(data.draw(st.sampled_from(ACCEPTED))))
    container, key = data.draw(st.sampled_from(places(value)[2:]))
    container[key] = data.draw(JSON)

    checked = check(value, old=OLD[value["kind"]])

    assert isinstance(checked, Checked)
    assert all(problem.message for problem in checked.problems)


def test_a_failed_rule_is_not_told_twice() -> None:
    value = copy.deepcopy(dict(ACCEPTED[0]))
    value["spec"]["segment"] = {"size": "big"}

    problems = check(value).problems

    assert [str(problem) for problem in problems] == [
        "spec.segment.size: must be a Kubernetes quantity, such as 10Gi"
    ]
