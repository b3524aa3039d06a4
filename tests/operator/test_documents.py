from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_operator import API_VERSION
from iggy_operator.documents import DocumentErrors, Loaded, load_documents

STREAM = f"apiVersion: {API_VERSION}\nkind: IggyStream\nmetadata: {{name: shop}}\n"
TOPIC = f"""\
apiVersion: {API_VERSION}
kind: IggyTopic
metadata:
  name: orders
spec:
  streamRef:
    name: shop
"""


def read(tmp_path: Path, text: str | bytes) -> Loaded:
    path = tmp_path / "topic.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_documents([path])


def errors(tmp_path: Path, text: str | bytes) -> list[str]:
    with pytest.raises(DocumentErrors) as caught:
        read(tmp_path, text)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def test_several_documents_are_read_in_order(tmp_path: Path) -> None:
    loaded = read(tmp_path, f"---\n{STREAM}---\n# nothing\n---\n{TOPIC}")

    assert [document.identity for document in loaded.documents] == [
        ("IggyStream", "default", "shop"),
        ("IggyTopic", "default", "orders"),
    ]
    assert loaded.documents[1].value["spec"]["partitions"] == 1


def test_a_problem_names_file_line_column_field_and_fix(tmp_path: Path) -> None:
    found = errors(tmp_path, f"{STREAM}---\n{TOPIC}  partitons: 6\n")

    assert found == ["topic.yaml:12:3: spec.partitons: unknown field, did you mean partitions?"]


def test_all_problems_of_all_documents_are_told(tmp_path: Path) -> None:
    found = errors(
        tmp_path, f"{TOPIC}  partitions: none\n  compression: Zip\n---\n{STREAM}spec: 1\n"
    )

    assert [line.partition(": ")[0] for line in found] == [
        "topic.yaml:8:3",
        "topic.yaml:9:3",
        "topic.yaml:14:1",
    ]
    assert "must be a whole number, is 'none'" in found[0]
    assert "must be one of None, Gzip, is 'Zip'" in found[1]


def test_a_missing_field_points_at_what_should_hold_it(tmp_path: Path) -> None:
    found = errors(
        tmp_path, f"apiVersion: {API_VERSION}\nkind: IggyTopic\nmetadata: {{}}\nspec: {{}}\n"
    )

    assert found == [
        "topic.yaml:3:1: metadata.name: is missing: add it",
        "topic.yaml:4:1: spec.streamRef: is missing: add it",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\n", "this is not YAML"),
        ("a:\tb: c", "this is not YAML"),
        ("- 1\n- 2\n", "must be a mapping of fields"),
        ("just text", "must be a mapping of fields"),
        (b"a: \xff", "not UTF-8"),
        (STREAM + "kind: IggyTopic\n", "stands here twice"),
        (STREAM + "metadata2: !!python/name:os.system\n", "no plain value"),
        (STREAM + "x: .nan\n", "not a number that can be stored"),
        ("kind: IggyTopic\n", "must be iggykube.dev/v1alpha1, is None"),
        ("apiVersion: iggykube.dev/v1\nkind: IggyTopic\n", "must be iggykube.dev/v1alpha1"),
        ("apiVersion: iggykube.dev/v1alpha1\n", "kind: is missing"),
        ("apiVersion: iggykube.dev/v1alpha1\nkind: Topic\n", "did you mean IggyTopic?"),
        ("apiVersion: v1\nkind: IggyTopics\n", "did you mean IggyTopic?"),
        ("a: " + "[" * 100 + "]" * 100, "levels"),
        ("? {a: 1}\n: 2\n", "must be a text"),
    ],
)
def test_what_cannot_be_used_is_one_clear_problem(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    found = errors(tmp_path, text)

    assert len(found) == 1
    assert words in found[0]


def test_a_small_file_cannot_unfold_into_a_huge_one(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 9)]

    found = errors(tmp_path, "\n".join(lines))

    assert len(found) == 1
    assert "more than 20000 values" in found[0]


def test_an_alias_inside_itself_is_refused(tmp_path: Path) -> None:
    assert "levels" in errors(tmp_path, "a: &a\n  b: *a\n")[0]


def test_documents_of_others_are_left_alone_and_told(tmp_path: Path) -> None:
    loaded = read(
        tmp_path, f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: db}}\n---\n{STREAM}"
    )

    assert len(loaded.documents) == 1
    assert loaded.skipped == (f"v1 ConfigMap db ({tmp_path}/topic.yaml:1:1)",)


def test_the_same_object_twice_names_both_places(tmp_path: Path) -> None:
    found = errors(tmp_path, f"{STREAM}---\n{STREAM}")

    assert len(found) == 1
    assert found[0].startswith("topic.yaml:7:12: metadata.name: IggyStream shop")
    assert "topic.yaml:1:1" in found[0]


def test_values_are_read_as_kubernetes_reads_them(tmp_path: Path) -> None:
    text = TOPIC + "  topicName: 12:30\n  retention: &r {messageExpiry: 7d}\n"

    loaded = read(
        tmp_path, text.replace("name: orders", "name: orders\n  labels: {day: 2026-11-27}")
    )

    assert loaded.documents[0].value["spec"]["topicName"] == "12:30"
    assert loaded.documents[0].value["metadata"]["labels"] == {"day": "2026-11-27"}


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    text = (
        TOPIC
        + """\
  sinks:
  - &lake
    name: lake
    type: Files
    files: {path: lake}
    checkpoint: {volume: {}}
  - {<<: *lake, name: copy}
"""
    )

    loaded = read(tmp_path, text)

    assert [sink["name"] for sink in loaded.documents[0].value["spec"]["sinks"]] == ["lake", "copy"]


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(TOPIC)
    (tmp_path / "a.yaml").write_text(STREAM)
    (tmp_path / "notes.txt").write_text("not ours")

    loaded = load_documents([tmp_path])

    assert [document.kind for document in loaded.documents] == ["IggyStream", "IggyTopic"]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DocumentErrors, match=r"none\.yaml:1:1: cannot be read: No such file"):
        load_documents([tmp_path / "none.yaml"])


@settings(deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)

    try:
        load_documents([path])
    except DocumentErrors as caught:
        assert all(str(problem).startswith(f"{path}:") for problem in caught.problems)


def test_a_number_without_end_is_not_repeated_in_full(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, f"{TOPIC}  partitions: {'9' * 5000}\n")

    assert found.startswith("topic.yaml:8:15: spec.partitions: '9999")
    assert found.endswith("' is not a number")
    assert len(found) < 120


def test_a_name_that_kubernetes_refuses_is_explained(tmp_path: Path) -> None:
    found = errors(tmp_path, TOPIC.replace("name: orders", "name: Orders_1"))

    assert found == [
        "topic.yaml:4:3: metadata.name: must be lower-case letters, digits, dashes and dots, "
        "and begin and end with a letter or digit, is 'Orders_1'"
    ]
