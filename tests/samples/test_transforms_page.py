"""The page of transforms: every example does what the page says."""

import hashlib
import hmac
import json
import re
import struct
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from grpc_tools import protoc

from iggy_spark import decode, payload
from iggy_spark.transforms.plan import KINDS
from message_columns import messages

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "transforms.md").read_text()
SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = [found for found in SECTION.findall(PAGE) if "- " in found[1] and found[0] in KINDS]
MASK_KEY = "a key for the example"
PROTO = """
syntax = "proto3";
package shop;
message Place { string city = 1; }
message Order { int64 id = 1; Place place = 2; }
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "orders.proto").write_text(PROTO)
    arguments = [f"-I{folder}", f"--descriptor_set_out={folder}/orders.pb", "orders.proto"]
    assert protoc.main(["protoc", *arguments]) == 0
    return f"{folder}/orders.pb"


def header(key: bytes, kind: int, value: bytes) -> bytes:
    parts = ((2, key), (kind, value))
    return b"".join(struct.pack("<BI", which, len(data)) + data for which, data in parts)


HEADERS = header(b"source", 2, b"web") + header(b"attempt", 11, struct.pack("<I", 2))


def test_every_transform_has_its_section_with_an_example() -> None:
    assert sorted(name for name, _ in SECTIONS) == sorted(KINDS)
    for name, text in SECTIONS:
        assert blocks(text, "yaml"), name
        assert blocks(text, "json"), name


@pytest.mark.parametrize(("name", "text"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_an_example_does_what_the_page_says(
    name: str, text: str, descriptors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", MASK_KEY)
    (written,) = blocks(text, "yaml")
    transforms = yaml.safe_load(written.replace("/schemas/orders.pb", descriptors))
    decoder = decode.build(payload.parse("Json", None, transforms, names=payload.JOB_NAMES))
    assert decoder is not None

    for example in blocks(text, "json"):
        before, after = example.splitlines()
        found = decoder.decode(
            pa.array([before.encode()], pa.binary()), messages(1, headers=[HEADERS])
        )
        if after == "dropped":
            assert (found.filtered, found.rejected) == (1, ())
        elif after.startswith("rejected: "):
            (bad,) = found.rejected
            assert bad.message == after.removeprefix("rejected: ")
        else:
            assert found.rejected == ()
            (value,) = found.values.to_pylist()
            assert readable(json.loads(value)) == json.loads(after)


def readable(document: Any) -> Any:
    """The document with words for the values that nobody can work out by hand."""
    if "event_id" in document:
        assert uuid.UUID(document["event_id"]).version == 5
        document["event_id"] = "UUID"
    if "number" in document.get("card", {}):
        key, number = MASK_KEY.encode(), b"4111111111111111"
        if document["card"]["number"] == hmac.new(key, number, hashlib.sha256).hexdigest():
            document["card"]["number"] = "HMAC"
    return document


def test_every_payload_of_the_page_can_be_declared(descriptors: str) -> None:
    found = [yaml.safe_load(text) for text in blocks(PAGE, "yaml") if text.startswith("payload:")]

    formats = []
    for given in (one["payload"] for one in found):
        text = given["schema"].replace("/schemas/orders.pb", descriptors)
        declared = payload.parse(
            given["format"], text, columns=given.get("columns"), names=payload.JOB_NAMES
        )
        assert decode.build(declared) is not None
        formats.append(declared.format)
    assert formats == ["json", "avro", "protobuf", "avro"]


@pytest.mark.parametrize(("module", "title"), [("avro_columns", "Avro"), ("protobuf", "Protobuf")])
def test_the_tables_of_columns_are_those_of_the_code(module: str, title: str) -> None:
    code = (ROOT / "spark" / "iggy_spark" / "formats" / f"{module}.py").read_text()
    table = re.findall(r"^\| (.*?) \|", code, re.MULTILINE)[2:]
    page = re.sub(r"`|google\.protobuf\.?", "", PAGE[PAGE.index(f"### {title}") :])

    types = {word for row in table for word in re.findall(r"[A-Za-z0-9-]{3,}", row)}
    missing = {word for word in types - {"google", "protobuf"} if word not in page}
    assert missing <= {"StringValue"}
