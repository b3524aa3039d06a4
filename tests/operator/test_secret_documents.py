"""Kubernetes' Secrets in files: read as the API server would, and never shown."""

from pathlib import Path

import pytest

from iggy_operator.documents import DocumentErrors, load_documents
from iggy_operator.resources import load

HEAD = "apiVersion: v1\nkind: Secret\nmetadata: {name: pg, namespace: shop}\n"
TELLTALE = "hunter2"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "secret.yaml"
    path.write_text(text)
    return path


def test_both_ways_to_write_a_value_are_read(tmp_path: Path) -> None:
    text = HEAD + "data: {username: YW5u, ca.crt: !!str aGk=}\nstringData: {password: '7 7\n'}\n"
    resources = load([written(tmp_path, text)])

    (secret,) = resources.secrets
    assert (secret.namespace, secret.name) == ("shop", "pg")
    assert secret.values == {"username": b"ann", "ca.crt": b"hi", "password": b"7 7 "}
    assert resources.documents == ()
    assert resources.skipped == ()
    assert "ann" not in repr(resources)


def test_a_text_wins_over_its_twin_in_base64(tmp_path: Path) -> None:
    text = HEAD.replace(", namespace: shop", "") + "data: {a: YW5u}\nstringData: {a: new}\n"

    (secret,) = load_documents([written(tmp_path, text)]).secrets

    assert (secret.namespace, dict(secret.values)) == ("default", {"a": b"new"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + f"data: {{password: {TELLTALE}}}\n", "data.password: is not in base64"),
        (HEAD + "stringData: {password: 77}\n", "stringData.password: must be a text"),
        (HEAD + f"stringData: {{a/b: {TELLTALE}}}\n", "stringData.a/b: a key must have"),
        (HEAD + f"stringData: {{..: {TELLTALE}}}\n", "a key must have"),
        (HEAD + f"stringData: {TELLTALE}\n", "stringData: must be a mapping"),
        (HEAD + f"StringData: {{a: {TELLTALE}}}\n", "StringData: unknown field"),
        (HEAD.replace("pg", "Pg"), "metadata.name: must be a name"),
        (HEAD.replace("shop", "../shop"), "metadata.namespace: must be a name"),
        (HEAD.replace("metadata: {name: pg, namespace: shop}", "metadata: x"), "metadata.name"),
        (HEAD + f"---\n{HEAD}", "stands already in"),
        (HEAD + f"stringData: {{a: {'x' * (1 << 20)}, b: x}}\n", "more than 1 MiB"),
    ],
)
def test_what_is_wrong_is_told_without_a_value(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DocumentErrors) as caught:
        load_documents([written(tmp_path, text)])

    assert len(caught.value.problems) == 1
    assert words in str(caught.value)
    assert "secret.yaml:" in str(caught.value)
    assert TELLTALE not in str(caught.value)
