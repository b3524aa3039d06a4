"""Whatever the transforms and whatever the document: a document comes out, or a reason."""

import json
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_spark import decode, payload
from iggy_spark.errors import OptionError
from message_columns import messages

NAMES = st.sampled_from(["a", "b", "c", "a_b", "x.y", "", "\u00fc"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["1", "1.5", "2026-03-29T01:00:00Z", '{"a": 1}', "AAA="])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)

PATHS = st.sampled_from(["a", "b", "a.b", "b.a.c", r"x\.y", "a_b", "new", "new.x"])
FIELDS = PATHS | st.sampled_from(["*", "a.*", "a*", "b.*_b"])
LISTS = st.lists(FIELDS, min_size=1, max_size=3)
COMPUTED = ("offset", "partition", "message_id", "uuid_v5", "broker_timestamp_nanos", "topic")
GIVEN = st.fixed_dictionaries({"static": VALUES}) | st.fixed_dictionaries(
    {"computed": st.sampled_from(COMPUTED)}
)
TESTS = st.one_of(
    st.fixed_dictionaries({"equals": VALUES}),
    st.fixed_dictionaries({"contains": st.sampled_from(["a", "1"])}),
    st.fixed_dictionaries({"regex": st.sampled_from(["^a", "[0-9]+"])}),
    st.fixed_dictionaries({"greater": st.integers() | st.text(max_size=2)}),
    st.fixed_dictionaries({"less": st.floats(allow_nan=False, allow_infinity=False)}),
    st.fixed_dictionaries({"between": st.just([0, 9])}),
    st.fixed_dictionaries({"is_null": st.booleans()}),
    st.fixed_dictionaries({"is_object": st.booleans()}),
    st.fixed_dictionaries({"exists": st.booleans()}),
)
CONDITIONS = st.recursive(
    st.builds(lambda field, test: {"field": field, **test}, PATHS, TESTS),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"and": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"or": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=4,
)
PATTERNS = st.lists(
    st.fixed_dictionaries(
        {"key_pattern": st.sampled_from([{"starts_with": "a"}, {"contains": "_"}, {"regex": "b$"}])}
    )
    | st.fixed_dictionaries({"value_pattern": TESTS | st.sampled_from(["is_number", "is_null"])}),
    max_size=2,
)
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})


def listed(**item: Any) -> Any:
    return st.fixed_dictionaries(
        {"fields": st.lists(st.fixed_dictionaries(item), min_size=1, max_size=2)}
    )


TRANSFORMS = st.one_of(
    st.builds(lambda arguments: {"add_fields": arguments}, listed(key=PATHS, value=GIVEN)),
    st.builds(
        lambda arguments: {"update_fields": arguments},
        listed(key=PATHS, value=GIVEN, condition=st.sampled_from(["always", "key_not_exists"])),
    ),
    st.builds(lambda fields: {"delete_fields": {"fields": fields}}, LISTS),
    st.builds(
        lambda keep, patterns, include, deep: {
            "filter_fields": {
                "keep_fields": keep, "patterns": patterns, "include_matching": include,
                "deep": deep,
            }
        },
        st.lists(PATHS, max_size=2), PATTERNS, st.booleans(), st.booleans(),
    ),
    st.builds(
        lambda arguments: {"rename_fields": arguments}, listed(**{"from": PATHS, "to": PATHS})
    ),
    st.builds(
        lambda arguments, error: {"cast_fields": {**arguments, "onError": error}},
        listed(
            key=FIELDS,
            to=st.sampled_from(["string", "integer", "number", "boolean", "json"]),
        )
        | listed(
            key=FIELDS,
            to=st.sampled_from(["timestamp", "date"]),
            unit=st.sampled_from(["seconds", "micros"]),
        ),
        st.sampled_from(["error", "keep", "null"]),
    ),
    st.builds(
        lambda field, missing: {"unwrap_envelope": {"field": field, "onMissing": missing}},
        PATHS, st.sampled_from(["keep", "error", "drop"]),
    ),
    st.builds(lambda depth: {"flatten": {"depth": depth}}, st.integers(1, 3)),
    st.builds(lambda fields, value: {"mask_fields": {"fields": fields, "fixed": value}}, LISTS,
              st.sampled_from(["***", 0, None])),
    st.builds(
        lambda where: {"filter_messages": {"where": where}}, CONDITIONS
    ),
    st.just({"headers_to_fields": {}}),
    st.just({"metadata_to_fields": {"into": "a.b"}}),
    st.just({"avro_convert": {"field": "a", "schema_json": AVRO}}),
    st.just({"avro_convert": {"source_format": "json", "target_format": "avro", "into": "b",
                              "schema_json": AVRO}}),
)  # fmt: skip


def decoded(transforms: Any, documents: list[Any], schema: str | None) -> decode.Decoded:
    declared = payload.parse("json", schema, transforms, names=payload.OPTION_NAMES)
    decoder = decode.build(declared)
    assert decoder is not None
    data = pa.array([json.dumps(one).encode() for one in documents], pa.binary())
    return decoder.decode(data, messages(len(documents)))


@settings(max_examples=200)
@given(
    st.lists(TRANSFORMS, max_size=5),
    st.lists(DOCUMENTS | VALUES, max_size=4),
    st.sampled_from([None, "a BIGINT, b STRING, `x.y` DOUBLE, a_b ARRAY<STRING>"]),
)
def test_any_document_comes_out_or_a_reason(
    transforms: list[Any], documents: list[Any], schema: str | None
) -> None:
    try:
        found = decoded(transforms, documents, schema)
    except OptionError as error:
        # Paths into objects need deep: true; any other list of these is right.
        assert "need deep" in str(error)
        return

    assert len(found.values) + len(found.rejected) + found.filtered == len(documents)
    assert all(bad.message for bad in found.rejected)
    again = decoded(transforms, documents, schema)
    assert again.values.equals(found.values)
    assert again.rejected == found.rejected
    if schema is None:
        for value in found.values.to_pylist():
            assert isinstance(msgspec.json.decode(value), dict)


@given(st.lists(TRANSFORMS, max_size=3), st.lists(TRANSFORMS, max_size=3), DOCUMENTS)
def test_a_list_does_what_its_parts_do_one_after_the_other(
    first: list[Any], second: list[Any], document: Any
) -> None:
    try:
        whole = decoded([*first, *second], [document], None)
        half = decoded(first, [document], None)
    except OptionError:
        return

    values = half.values.to_pylist()
    if not values:
        assert (whole.rejected, whole.filtered) == (half.rejected, half.filtered)
        return
    rest = decoded(second, [json.loads(values[0])], None)
    assert [json.loads(value) for value in whole.values.to_pylist()] == [
        json.loads(value) for value in rest.values.to_pylist()
    ]


def test_a_document_as_deep_as_can_be_is_taken_or_set_aside() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": [deep]}
    transforms: list[Any] = [
        {"filter_fields": {"patterns": [{"value_pattern": "is_string"}], "deep": True}},
        {"flatten": {}},
        {"filter_messages": {"where": {"field": "a", "equals": deep}}},
        {"cast_fields": {"fields": [{"key": "a", "to": "string"}]}},
        {"delete_fields": {"fields": ["a.a.a"]}},
    ]

    for transform in transforms:
        found = decoded([transform], [deep, {}], None)
        assert len(found.values) + len(found.rejected) + found.filtered == 2


ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from([
            "fields", "key", "value", "static", "computed", "where", "field", "patterns", "into",
            "equals", "not", "sha256", "keyPath", "key_pattern", "regex", "separator",
            "schema_json",
        ]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KINDS = st.sampled_from([
    "add_fields", "update_fields", "delete_fields", "filter_fields", "unwrap_envelope",
    "proto_convert", "avro_convert", "filter_messages", "rename_fields", "cast_fields", "flatten",
    "mask_fields", "headers_to_fields", "metadata_to_fields",
])  # fmt: skip


@settings(max_examples=200)
@given(st.builds(lambda kind, value: [{kind: value}], KINDS, ANYTHING) | ANYTHING, DOCUMENTS)
def test_any_declaration_is_taken_or_refused(transforms: Any, document: Any) -> None:
    try:
        found = decoded(transforms, [document], None)
    except OptionError as error:
        assert str(error).startswith("transforms")
        return

    assert len(found.values) + len(found.rejected) + found.filtered == 1
