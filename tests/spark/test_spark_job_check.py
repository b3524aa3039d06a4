"""`sink_job check` and `explain-offsets`: what they say, and that they change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iggy_client import Client
from iggy_spark import errors, job_check, job_config, sink_job
from iggy_spark.connections import Connection
from iggy_spark.offsets import Offsets, QueryOffsets
from iggy_spark.options import parse
from iggy_spark.retry import Retry
from iggy_spark.sinks import file_names, registry
from iggy_spark.sinks.file_names import FileName
from iggy_spark.state import write_initial
from iggy_wire.primitives import Consumer
from jdbc_cases import Scene
from postgres import Postgres
from remote_checkpoint import RemoteCheckpoint
from sink_cases import PlayedTask, portions, wanted
from sink_jobs import LOGIN, Setup, documents

if TYPE_CHECKING:
    from conftest import Topic


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> Setup:
    topic.send(0, documents(0, 5))
    topic.send(1, documents(0, 3))
    return Setup(topic, tmp_path)


def life(topic: Topic) -> str:
    return str(Connection(parse(topic.options(), mode="stream")).topic_state().incarnation)


def store(client: Client, topic: Topic, group: str, *lasts: int) -> None:
    """In the place of a job that was there."""
    client.create_group(topic.stream, topic.name, group)
    client.join_group(topic.stream, topic.name, group)
    for partition, last in enumerate(lasts):
        client.store_offset(Consumer.group(group), topic.stream, topic.name, partition, last)
    client.leave_group(topic.stream, topic.name, group)


def offsets(topic: Topic, *positions: int) -> Offsets:
    return Offsets(f"{topic.stream}/{topic.name}", life(topic), dict(enumerate(positions)))


def plan_of(ends: Offsets) -> str:
    """As Spark writes it."""
    return f"v1\n{{}}\n{json.dumps(ends.to_json())}\n"


def commit(setup: Setup, ends: Offsets, batch: int) -> None:
    """What Spark leaves of a batch."""
    spark = setup.checkpoint / ends.incarnation / "spark"
    for name in ("commits", "offsets"):
        (spark / name).mkdir(parents=True, exist_ok=True)
    (spark / "commits" / str(batch)).write_text("v1\n{}")
    (spark / "offsets" / str(batch)).write_text(plan_of(ends))


def write_file(setup: Setup, incarnation: str, partition: int, end: int) -> None:
    """A name is all that the sink looks at."""
    setup.lake.mkdir(exist_ok=True)
    name = FileName(incarnation, partition, 0, end)
    (setup.lake / f"{name}{file_names.PARQUET}").write_bytes(b"")


def look(
    setup: Setup, command: str, capsys: pytest.CaptureFixture[str], output: str = "text"
) -> tuple[int, list[str], str]:
    """Exit code, lines of the output, and what stands on standard error."""
    code = job_check.run(command, setup.write(), setup.login, output=output)
    told = capsys.readouterr()
    return code, told.out.splitlines(), told.err


def explained(setup: Setup, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, lines, error = look(setup, "explain-offsets", capsys, "json")
    assert (code, error) == (0, "")
    found: dict[str, Any] = json.loads(lines[0])
    return found


def test_a_new_sink_is_checked_line_by_line(
    setup: Setup, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{topic.stream}/{topic.name}"

    code, lines, error = look(setup, "check", capsys)

    assert (code, error) == (0, "")
    assert lines == [
        "configuration  lake, type Files",
        f"broker         {name}, incarnation {life(topic)}, 2 partitions",
        "target         can be written",
        "group          lake, lag 8",
        "target holds   nothing",
        "start          partition 0: earliest, partition 1: earliest, by settings",
    ]
    assert not setup.checkpoint.exists()
    assert topic.members("lake") == 0


def test_programs_get_one_object(
    setup: Setup, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(setup, life(topic), 0, 4)

    _, lines, _ = look(setup, "check", capsys, "json")

    assert [json.loads(line) for line in lines] == [
        {
            "sink": "lake",
            "type": "Files",
            "topic": f"{topic.stream}/{topic.name}",
            "incarnation": life(topic),
            "partitions": 2,
            "target": "can be written",
            "lag": 8,
            "held": {"0": 4, "1": None},
            "start": {"0": 4, "1": "earliest"},
            "startBy": "settings, target",
        }
    ]


def test_checkpoint_broker_and_target_stand_side_by_side(
    setup: Setup, topic: Topic, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(setup, offsets(topic, 1, 0), 9)
    commit(setup, offsets(topic, 4, 3), 10)  # a later one than 9, and not by its text
    store(client, topic, "lake", 2)
    write_file(setup, life(topic), 0, 5)
    before = sorted(setup.checkpoint.rglob("*"))

    code, lines, _ = look(setup, "explain-offsets", capsys)

    assert code == 0
    assert lines[0] == f"{topic.stream}/{topic.name}, incarnation {life(topic)}"
    assert [line.split() for line in lines[1:]] == [
        ["PARTITION", "END", "CHECKPOINT", "STORED", "TARGET", "START", "BY"],
        ["0", "5", "4", "3", "5", "4", "checkpoint"],
        ["1", "3", "3", "-", "-", "3", "checkpoint"],
    ]
    assert sorted(setup.checkpoint.rglob("*")) == before
    assert explained(setup, capsys)["lag"] == 5


def test_a_target_that_tells_nothing_has_no_column(
    setup: Setup, topic: Topic, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.value["sink"] = {"type": "Console"}
    store(client, topic, "lake", 1)

    found = explained(setup, capsys)

    assert found["partitions"] == [
        {"partition": 0, "end": 5, "checkpoint": None, "stored": 2, "start": 2, "by": "group"},
        {
            "partition": 1,
            "end": 3,
            "checkpoint": None,
            "stored": None,
            "start": "earliest",
            "by": "settings",
        },
    ]
    _, lines, _ = look(setup, "check", capsys)
    assert [line.split()[0] for line in lines][-2:] == ["group", "start"]


def test_a_first_batch_that_is_not_done_begins_where_it_was_to(
    setup: Setup, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = offsets(topic, 2, 1)
    state = setup.checkpoint / begin.incarnation / "state"
    write_initial(str(state), QueryOffsets.of([begin]))

    found = explained(setup, capsys)

    assert [(row["start"], row["by"]) for row in found["partitions"]] == [
        (2, "checkpoint"),
        (1, "checkpoint"),
    ]


def test_a_checkpoint_in_a_store_is_read_there(
    setup: Setup, topic: Topic, remote: RemoteCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    remote.put_into(setup)
    ends = offsets(topic, 4, 3)
    remote.bucket.put(f"{ends.incarnation}/spark/commits/0", b"v1\n{}")
    remote.bucket.put(f"{ends.incarnation}/spark/offsets/0", plan_of(ends).encode())

    found = explained(setup, capsys)

    assert [row["checkpoint"] for row in found["partitions"]] == [4, 3]


def test_a_database_is_asked_and_nothing_is_made(
    setup: Setup, topic: Topic, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(postgres)
    schema = setup.value["sink"]["payload"]
    login = str(postgres.login)
    block = {"url": postgres.url, "table": scene.table, "credentialsPath": login}
    setup.value["sink"] = {"type": "Jdbc", "jdbc": block, "payload": schema}
    query = f"select tablename from pg_tables where schemaname = '{scene.schema}'"

    before = explained(setup, capsys)
    code, lines, _ = look(setup, "check", capsys)

    assert [row["start"] for row in before["partitions"]] == ["earliest", "earliest"]
    assert (code, scene.run(query)) == (0, [])
    assert "target holds   nothing" in lines


@pytest.mark.parametrize("kind", ["Delta", "Iceberg"])
def test_a_table_of_a_lake_is_asked_and_not_made(
    setup: Setup, topic: Topic, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    block = {
        "Delta": {"path": str(setup.lake)},
        "Iceberg": {"table": "shop.orders", "catalog": catalog},
    }[kind]
    payload = setup.value["sink"]["payload"]
    setup.value["sink"] = {"type": kind, kind.lower(): block, "payload": payload}

    before = explained(setup, capsys)

    assert [(row["target"], row["by"]) for row in before["partitions"]] == [(None, "settings")] * 2
    assert not setup.lake.exists()
    assert not list(tmp_path.rglob("*.metadata.json"))
    _write(setup, life(topic), 4)
    after = explained(setup, capsys)
    assert [(row["target"], row["start"], row["by"]) for row in after["partitions"]] == [
        (4, 4, "target"),
        (None, "earliest", "settings"),
    ]


def _write(setup: Setup, incarnation: str, end: int) -> None:
    """What a job does, without Spark: one range of partition 0."""
    config = job_config.load(setup.write())
    sink = registry.build(config, show=lambda line: None, retry=Retry(config.retry_policy))
    sink.check()
    sink.prepare(incarnation)
    span = wanted(0, end, incarnation=incarnation)
    found = portions(span, payload=config.payload, made=lambda n: documents(n, n + 1)[0])
    sink.commit([sink.write_task(span, found, PlayedTask())])


@pytest.mark.parametrize("command", ["check", "explain-offsets"])
def test_errors_have_the_codes_of_the_job(
    setup: Setup, topic: Topic, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def code_and_reason(**more: Any) -> tuple[int, str]:
        former = dict(setup.value)
        setup.value |= more
        code, _, error = look(setup, command, capsys)
        setup.value = former
        assert error.count("\n") == 1
        return code, error

    code, reason = code_and_reason(topic="missing")
    assert (code, "topic 'missing'" in reason) == (errors.EXIT_FAILED, True)
    code, reason = code_and_reason(sink={"type": "Files"})
    assert (code, "sink.files" in reason) == (errors.EXIT_CONFIGURATION, True)
    (setup.checkpoint / "7-1" / "spark").mkdir(parents=True)
    code, reason = code_and_reason()
    assert (code, "created again" in reason) == (errors.EXIT_DATA_LOSS, True)


def test_what_is_well_stands_before_what_is_not(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.lake.write_text("a file where a folder should be")

    code, lines, error = look(setup, "check", capsys)

    assert code == errors.EXIT_FAILED
    assert [line.split()[0] for line in lines] == ["configuration", "broker"]
    assert str(setup.lake) in error


def test_a_place_that_is_behind_the_topics_end_is_told(
    setup: Setup, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(setup, life(topic), 0, 50)

    code, _, error = look(setup, "explain-offsets", capsys)

    assert (code, "holds offsets up to 49" in error) == (errors.EXIT_DATA_LOSS, True)


def test_the_program_takes_the_command_in_front(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)

    code = sink_job.main(["check", "--config", str(setup.write()), "--output", "json"])

    assert (code, json.loads(capsys.readouterr().out)["lag"]) == (0, 8)
    with pytest.raises(SystemExit) as refused:
        sink_job.main(["chek", "--config", str(setup.file)])
    assert refused.value.code == errors.EXIT_CONFIGURATION
