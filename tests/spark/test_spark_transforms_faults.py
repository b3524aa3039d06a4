"""Transforms: how they fail, in which order they run, and which settings are wrong."""

from typing import Any

import pytest

from iggy_spark import decode, payload
from iggy_spark.errors import OptionError
from transform_cases import Document, declare, fault, one, run


@pytest.mark.parametrize(
    ("to", "value"),
    [
        ("integer", "4.2"), ("integer", 4.2), ("integer", "abc"), ("integer", {}),
        ("number", "NaN"), ("number", "1e999"), ("number", True), ("boolean", "yes"),
        ("boolean", 2), ("timestamp", "yesterday"), ("timestamp", 1e300), ("date", True),
        ("json", "{"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_cast_is_told_or_left(to: str, value: Any) -> None:
    fields = {"fields": [{"key": "v", "to": to}]}

    assert fault([{"cast_fields": fields}], {"v": value}).startswith("v: ")
    assert one([{"cast_fields": {**fields, "onError": "keep"}}], {"v": value}) == {"v": value}
    assert one([{"cast_fields": {**fields, "onError": "null"}}], {"v": value}) == {"v": None}


@pytest.mark.parametrize(
    ("transform", "document", "told"),
    [
        (
            {"add_fields": {"fields": [{"key": "a.b", "value": {"static": 1}}]}},
            {"a": 5},
            "a is not",
        ),
        ({"rename_fields": {"fields": [{"from": "a", "to": "b"}]}}, {"a": 1, "b": 2}, "already"),
        ({"unwrap_envelope": {"field": "d", "onMissing": "error"}}, {}, "d: missing"),
        ({"unwrap_envelope": {"field": "d"}}, {"d": [1]}, "not an object"),
        ({"flatten": {}}, {"a_b": 1, "a": {"b": 2}}, "a_b: two fields"),
    ],
)
def test_what_cannot_be_done_is_told(transform: Any, document: Document, told: str) -> None:
    assert told in fault([transform], document)


def test_the_order_of_the_list_is_kept() -> None:
    rename = {"rename_fields": {"fields": [{"from": "a", "to": "b"}]}}
    delete = {"delete_fields": {"fields": ["a"]}}

    assert one([rename, delete], {"a": 1}) == {"b": 1}
    assert one([delete, rename], {"a": 1}) == {}


def test_good_rejected_and_filtered_are_all() -> None:
    transforms = [
        {"filter_messages": {"where": {"field": "test", "exists": False}}},
        {"cast_fields": {"fields": [{"key": "id", "to": "integer"}]}},
    ]

    found = run(
        transforms, {"id": "1"}, {"test": 1}, {"id": "x"}, {"id": "2"}, {"id": None}, {"id": "3"},
        schema="id BIGINT NOT NULL",
    )  # fmt: skip

    assert found.values.to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert found.filtered == 1
    assert found.good_rows.to_pylist() == [0, 3, 5]
    assert [(bad.row, bad.stage, bad.transform) for bad in found.rejected] == [
        (2, "transform", 1), (4, "decode", None),
    ]  # fmt: skip
    rows, values, errors = decode.aligned_columns(found, 6)
    assert rows is not None
    assert rows.to_pylist() == [0, 2, 3, 4, 5]
    assert [value and value["id"] for value in values.to_pylist()] == [1, None, 2, None, 3]
    assert [error and error["stage"] for error in errors.to_pylist()] == [
        None, "transform", None, "decode", None,
    ]  # fmt: skip
    rows, values, errors = decode.aligned_columns(found, 6, skip=True)
    assert rows is not None
    assert (rows.to_pylist(), errors.null_count) == ([0, 3, 5], 3)


@pytest.mark.parametrize(
    ("transforms", "told"),
    [
        ([{"add_feilds": {}}], r"transforms\[0\]: add_feilds is not a transform, did you mean"),
        ([{"flatten": {}}] * 3 + [{"add_fields": {"feilds": []}}],
         r"transforms\[3\]\.add_fields\.feilds: not an argument, did you mean fields\?"),
        ([{"flatbuffer_convert": {}}], "flatbuffer_convert is not possible here"),
        ([{"flatten": {}}] * 33, "33 transforms, at most 32"),
        ([{"flatten": {}, "delete_fields": {}}], "exactly one key"),
        ([5], r"transforms\[0\]: an object"),
        ("x", "a list of transforms"),
        ([{"delete_fields": {"fields": []}}], "empty"),
        ([{"delete_fields": {"fields": ["a.*.b"]}}], "in the last step only"),
        ([{"delete_fields": {"fields": ["a..b"]}}], "not the path of a field"),
        ([{"add_fields": {"fields": [{"key": "a*", "value": {"static": 1}}]}}], "no wildcard here"),
        ([{"add_fields": {"fields": [{"key": "a", "value": {"computed": "broker_time"}}]}}],
         "did you mean broker_timestamp"),
        ([{"add_fields": {"fields": [{"key": "a", "value": {}}]}}], "either static or computed"),
        ([{"update_fields": {"fields": [{"key": "a", "value": {"static": 1}, "condition": "x"}]}}],
         r"fields\[0\]\.condition"),
        ([{"filter_messages": {"where": {"equals": 1}}}], "of which field"),
        ([{"filter_messages": {"where": {"field": "a"}}}], "no test"),
        ([{"filter_messages": {"where": {"field": "a", "eqals": 1}}}], "did you mean equals"),
        ([{"filter_messages": {"where": {"field": "a", "regex": "("}}}], "not a regular expr"),
        ([{"filter_messages": {"where": {"field": "a", "between": [1, "x"]}}}], "both bounds"),
        ([{"filter_fields": {"patterns": [{"value_pattern": "is_text"}]}}], "value_pattern"),
        ([{"filter_fields": {"keep_fields": ["a.b"]}}], "need deep: true"),
        ([{"cast_fields": {"fields": [{"key": "a", "to": "int"}]}}], "did you mean integer"),
        ([{"mask_fields": {"fields": ["a"]}}], "either sha256 or fixed"),
        ([{"mask_fields": {"fields": ["a"], "sha256": {"keyEnv": "NO_SUCH_VARIABLE"}}}],
         "NO_SUCH_VARIABLE is not set"),
        ([{"mask_fields": {"fields": ["a"], "sha256": {"keyPath": "/nonexistent"}}}],
         "/nonexistent cannot be read"),
        ([{"metadata_to_fields": {"fields": ["ofset"]}}], "did you mean offset"),
        ({"rename_fields": {}}, "needs the form of a list"),
        ([{"proto_convert": {"schema_path": "x.proto"}}], "name a descriptor_set"),
        ([{"avro_convert": {"schema_json": "{}"}}], r"avro_convert\.field: missing"),
    ],
)  # fmt: skip
def test_a_wrong_transform_is_named(transforms: Any, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        declare(transforms)


def test_a_table_runs_in_a_fixed_order(caplog: pytest.LogCaptureFixture) -> None:
    table = {
        "delete_fields": {"enabled": True, "fields": ["a"]},
        "update_fields": {"enabled": False, "fields": [{"key": "x", "value": {"static": 1}}]},
        "add_fields": {"fields": [{"key": "a", "value": {"static": 1}}]},
        "unwrap_envelope": {"field": "data"},
    }

    assert one(table, {"data": {"b": 1}}) == {"b": 1}
    assert "it runs as unwrap_envelope, add_fields, delete_fields" in caplog.text


def test_the_place_is_that_of_the_job() -> None:
    with pytest.raises(OptionError, match=r"^sink\.transforms\[0\]\.flatten\.depth: "):
        payload.parse("Json", None, [{"flatten": {"depth": 0}}], names=payload.JOB_NAMES)
