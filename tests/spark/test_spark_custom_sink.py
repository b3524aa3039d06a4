"""A user's program as a sink: what it gets, what is repeated, and how its errors are told."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from iggy_spark import errors, job_config, job_run
from iggy_spark.errors import BadPayload, OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks import registry
from iggy_wire.batch import Message
from iggy_wire.options import Option, ValueKind, options_bytes
from iggy_wire.primitives import Partitioning
from page_samples import ROOT
from shown_sinks import shown
from sink_jobs import PROCESS_S, Setup, every, start

if TYPE_CHECKING:
    from conftest import Topic

FLAGS = re.MULTILINE | re.DOTALL
PAGE = ROOT / "docs" / "sinks" / "custom.md"
LOGGING = """
import json
from pyspark.sql.functions import udf

# Spark's way with Arrow warns of a pandas that it does not know.
@udf("bigint", useArrow=False)
def twice(number):
    return number * 2

def process(frame, batch, arguments):
    rows = frame.select("partition", "offset", twice("value.number").alias("n"))
    rows = [tuple(row) for row in rows.collect()]
    with open(arguments[0], "a") as file:
        file.write(json.dumps({"batch": batch, "rows": sorted(rows)}) + "\\n")
"""

FAILING = """
def process(frame, batch, arguments):
    frame.collect()
    if batch == 1:
        raise ZeroDivisionError("bug")
"""


def numbers(first: int, end: int) -> list[bytes]:
    return [json.dumps({"number": n}).encode() for n in range(first, end)]


class Custom(Setup):
    """A job whose program writes down what it gets."""

    def __init__(self, topic: Topic, folder: Path, program: str = LOGGING) -> None:
        self.program = folder / "program.py"
        self.log = folder / "log"
        self.program.write_text(program)
        super().__init__(topic, folder)
        self.value["sink"] = {
            "type": "Custom",
            "custom": {
                "mainApplicationFile": f"local://{self.program}",
                "arguments": [str(self.log)],
            },
            "payload": {"format": "Json", "schema": "number BIGINT NOT NULL"},
        }

    def batches(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def places(self) -> list[tuple[int, int]]:
        return [(part, offset) for one in self.batches() for part, offset, _ in one["rows"]]

    def check(self) -> None:
        """Only the program, without Spark."""
        config = job_config.load(self.write())
        policy = Policy(0, 0, 0)
        registry.build(config, show=lambda line: None, retry=Retry(policy)).check()


@pytest.fixture
def custom(topic: Topic, tmp_path: Path) -> Custom:
    return Custom(topic, tmp_path)


def test_each_batch_is_handed_over_and_the_broker_hears_of_it(
    spark: SparkSession, topic: Topic, custom: Custom
) -> None:
    topic.send(0, numbers(0, 3))
    topic.send(1, numbers(3, 5))

    events = custom.run(spark)

    assert custom.places() == every(p0=3, p1=2)
    assert sorted(n for _, _, n in custom.batches()[0]["rows"]) == [0, 2, 4, 6, 8]
    (done,) = (event for event in events if event["event"] == "progress")
    assert (done["rows"], done["committed"]) == (5, {"0": 3, "1": 2})
    assert (topic.stored("lake", 0), topic.stored("lake", 1)) == (2, 1)
    assert topic.members("lake") == 0

    topic.send(0, numbers(5, 6))
    custom.run(spark)
    assert custom.places() == [*every(p0=3, p1=2), (0, 3)]


def test_a_batch_that_spark_has_not_committed_is_repeated_with_its_number(
    spark: SparkSession, topic: Topic, custom: Custom
) -> None:
    topic.send(0, numbers(0, 3))
    custom.run(spark)
    custom.forget_last_commit()
    topic.send(0, numbers(3, 5))

    custom.run(spark)

    first, again, rest = custom.batches()
    assert first == again
    assert (rest["batch"], [offset for _, offset, _ in rest["rows"]]) == (1, [3, 4])


def test_a_program_reads_headers_as_columns(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    found = re.search(r"^from iggy_spark import header\n.*?(?=^```)", PAGE.read_text(), FLAGS)
    assert found is not None
    custom = Custom(topic, tmp_path, found[0])
    headers = options_bytes((Option.of("trace", "abc"), Option.of("attempt", 3, ValueKind.UINT32)))
    sent = [Message(b'{"number": 1}', id=1, headers=headers), Message(b'{"number": 2}', id=2)]
    topic.client.send(topic.stream, topic.name, Partitioning.partition(0), sent)

    custom.run(spark)

    (file,) = custom.log.glob("batch=0/*.json")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows == [{"offset": 0, "trace": "abc", "attempt": 3}, {"offset": 1}]


def test_the_job_ends_with_the_last_line_of_the_programs_error(
    spark: SparkSession, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["def process(frame, batch, arguments):", "    raise ValueError('no room\\nbehind it')"]
    custom = Custom(topic, tmp_path, "\n".join(lines))
    topic.send(0, numbers(0, 3))

    with pytest.raises(SinkError, match=r"program\.py failed in batch 0: ValueError: no room$"):
        custom.run(spark)

    assert SinkError.exit_code == errors.EXIT_FAILED
    assert "raise ValueError" in capsys.readouterr().err
    assert topic.stored("lake", 0) is None


def test_a_process_whose_program_fails_in_a_later_batch_does_not_end_well(
    topic: Topic, tmp_path: Path
) -> None:
    custom = Custom(topic, tmp_path, FAILING)
    custom.value["sink"]["maxOffsetsPerTrigger"] = 3
    topic.send(0, numbers(0, 9))

    process = start(custom)
    out, told = process.communicate(timeout=PROCESS_S)

    assert process.returncode == errors.EXIT_FAILED
    found = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in found] == ["started", "progress", "failed"]
    assert (found[-1]["code"], found[1]["committed"]["0"]) == (errors.EXIT_FAILED, 3)
    assert told.splitlines()[-1].endswith("program.py failed in batch 1: ZeroDivisionError: bug")
    assert topic.stored("lake", 0) == 2


def test_a_message_that_cannot_be_decoded_is_told_as_one(
    spark: SparkSession, topic: Topic, custom: Custom
) -> None:
    topic.send(0, [*numbers(0, 2), b"no json"])

    with pytest.raises(BadPayload, match="offset 2"):
        custom.run(spark)


def test_the_sample_of_the_page_keeps_totals(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), FLAGS)
    assert found is not None
    custom = Custom(topic, tmp_path, found[1])
    given = shown("custom", tmp_path)["sink"]
    assert given["custom"]["mainApplicationFile"] == "local:///opt/programs/totals.py"
    given["custom"] = {
        "mainApplicationFile": str(custom.program),
        "arguments": [str(tmp_path / "totals")],
    }
    custom.value["sink"] = given
    orders = [("ada", 3), ("cleo", 4), ("ada", 5)]
    topic.send(
        0,
        [
            json.dumps({"id": n, "customer": customer, "amount": amount}).encode()
            for n, (customer, amount) in enumerate(orders)
        ],
    )

    custom.run(spark)

    rows = pq.read_table(tmp_path / "totals" / "batch=0").to_pylist()
    assert {row["customer"]: row["amount"] for row in rows} == {"ada": 8, "cleo": 4}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("x = 1", "has no function process: write def process(frame, batch, arguments)"),
        ("process = 7", "has no function process"),
        ("def process(frame): pass", "process in .* does not take three arguments"),
        ("import nothing_such", "cannot be imported: ModuleNotFoundError: No module named"),
        ("def process(:", "cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    ],
)
def test_a_file_that_is_no_program_is_refused(
    topic: Topic, tmp_path: Path, program: str, words: str
) -> None:
    pattern = words.replace("(", r"\(").replace(")", r"\)")

    with pytest.raises(OptionError, match=rf"^custom\.mainApplicationFile: .*{pattern}"):
        Custom(topic, tmp_path, program).check()


def test_settings_that_do_not_go_with_a_program_are_refused(topic: Topic, tmp_path: Path) -> None:
    custom = Custom(topic, tmp_path)
    sink = custom.value["sink"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"custom": {"mainApplicationFile": "program.py"}}, "must be an absolute path"),
        ({"custom": {"mainApplicationFile": "s3a://b/p.py"}}, "must be an absolute path"),
        ({"custom": {"mainApplicationFile": "/no/such.py"}}, "there is no file /no/such.py"),
        ({"delivery": "ExactlyOnce"}, "sink.delivery: Custom"),
        (
            {"errors": {"tolerance": "Data", "deadLetter": {"topic": "dead"}}},
            "sink.errors.tolerance: a program",
        ),
        ({"errors": {"retry": {"timeout": "1m"}}}, "sink.errors.retry: a program"),
    ]
    for more, words in cases:
        custom.value["sink"] = {**sink, **more}
        with pytest.raises(OptionError, match=words):
            custom.check()


def test_a_module_beside_the_program_can_be_imported(topic: Topic, tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("def process(frame, batch, arguments): pass\n")

    Custom(topic, tmp_path, "from beside_it import process").check()

    assert "beside_it" in sys.modules


def test_the_job_says_no_before_spark_is_started(
    topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    custom = Custom(topic, tmp_path, "x = 1")

    code = job_run.run(custom.write(), custom.stop, custom.login)

    assert code == errors.EXIT_CONFIGURATION
    told = capsys.readouterr()
    assert "custom.mainApplicationFile" in told.err
    assert [json.loads(line)["event"] for line in told.out.splitlines()] == ["failed"]
