"""The job file: every mistake is refused by name, and what must not change does not."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import blocks, job_config, options
from iggy_spark.checkpoint import Checkpoint
from iggy_spark.errors import Fenced, OptionError, TopicRecreated
from iggy_spark.offsets import EARLIEST
from iggy_spark.retry import Policy

JOB: dict[str, Any] = {
    "name": "lake",
    "broker": {"address": "127.0.0.1:8090"},
    "stream": "flights",
    "topic": "departures",
    "sink": {
        "type": "Files",
        "files": {"path": "/data/lake", "format": "Parquet", "partitionBy": ["month"]},
        "payload": {"format": "Json", "schema": "month INT, carrier STRING"},
        "trigger": {"mode": "ProcessingTime", "interval": "2s"},
    },
    "checkpoint": "/data/checkpoint",
    "once": True,
}
LOGIN = {"IGGY_USERNAME": "iggy", "IGGY_PASSWORD": "a secret"}


def job(**changes: Any) -> dict[str, Any]:
    """The job with fields changed; a name with dots goes into the parts, None removes."""
    found = copy.deepcopy(JOB)
    for name, value in changes.items():
        *parts, last = name.split("__")
        place = found
        for part in parts:
            place = place.setdefault(part, {})
        if value is None:
            place.pop(last)
        else:
            place[last] = value
    return found


def load(folder: Path, value: object) -> job_config.JobConfig:
    path = folder / "job.json"
    path.write_text(json.dumps(value))
    return job_config.load(path)


def test_what_is_said_to_spark(tmp_path: Path) -> None:
    spark = {"packages": ["a:b:1", "c:d:2"], "conf": {"spark.x": "y"}}

    config = load(tmp_path, job(sink__spark=spark))

    assert config.sink.spark.properties == {"spark.jars.packages": "a:b:1,c:d:2", "spark.x": "y"}
    assert load(tmp_path, job()).sink.spark.properties == {}


def test_a_job_becomes_reader_options(tmp_path: Path) -> None:
    config = load(tmp_path, job())

    found = options.parse(job_config.reader_options(config, LOGIN), mode="stream")

    assert (found.stream, found.topic, found.consumer_group) == ("flights", "departures", "lake")
    assert found.starting.everywhere == EARLIEST
    assert [item.name for item in config.payload.fields] == ["month", "carrier"]
    assert config.available_now
    assert config.interval_ms == 2000


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sink__files__partitonBy": ["x"]}, r"unknown field `partitonBy` - at `\$.sink.files`"),
        ({"topic": None}, "missing required field `topic`"),
        ({"checkpoint": "relative"}, "checkpoint: 'relative' must be an absolute path"),
        ({"sink__files__path": "lake"}, r"sink\.files\.path: 'lake' must be an absolute path"),
        (
            {"sink__files__format": "Xml"},
            r"Invalid enum value .Xml. - at `\$\.sink\.files\.format`",
        ),
        ({"sink__type": "Fles"}, r"sink\.type: Fles is none of Files, Iceberg"),
        ({"sink__type": "Jdbc"}, r"sink\.files: goes with type Files"),
        ({"sink__jdbc": {"url": "jdbc:postgresql://h/d", "table": "t"}}, r"goes with type Jdbc"),
        ({"sink__type": "Console"}, r"sink\.files: goes with type Files"),
        ({"sink__console": {"rows": 5}}, r"sink\.console: goes with type Console"),
        ({"sink__files": None}, r"sink\.files: goes with type Files"),
        ({"sink__payload__format": "Avro"}, r"sink\.payload\.schema: no JSON, so no Avro"),
        ({"sink__payload__format": "Csv"}, r"sink\.payload\.format: 'Csv' is not a format"),
        ({"sink__payload__schema": "month NUMBER"}, r"sink\.payload\.schema: field 'month'"),
        ({"sink__payload__schema": "iggy_date DATE"}, r"names that start with iggy_ are ours, but"),
        ({"sink__payload__schema": "iggy_offset INT"}, r"names that start with iggy_ are ours"),
        ({"sink__transforms": [{"delete_fields": {}}]}, r"sink\.transforms\[0\]\.delete_fi"),
        ({"sink__errors__deadLetter": {"topic": "x"}}, r"deadLetter: goes with tolerance: Data"),
        ({"sink__errors__deadLetter": {"topik": "x"}}, r"unknown field `topik`|missing required"),
        ({"sink__errors__retry": {"maxDelay": "soon"}}, r"sink\.errors\.retry\.maxDelay='soon'"),
        ({"sink__trigger__interval": "soon"}, r"sink\.trigger\.interval='soon'"),
        ({"sink__maxOffsetsPerTrigger": 0}, r"maxOffsetsPerTrigger"),
        ({"sink__minPartitions": 0}, r"minPartitions"),
        (
            {"sink__type": "Console", "sink__files": None, "sink__minPartitions": 4},
            r"sink\.minPartitions: goes with types Files, .*Console takes each partition in order",
        ),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        load(tmp_path, job(**changes))


def test_a_missing_file_and_a_missing_login_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--config"):
        job_config.load(tmp_path / "none.json")

    with pytest.raises(OptionError, match="IGGY_PASSWORD is not set"):
        job_config.reader_options(load(tmp_path, job()), {"IGGY_USERNAME": "iggy"})


def test_a_checkpoint_is_held_by_one_job(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "c")
    with pytest.raises(Fenced, match="held by another"):
        Checkpoint(tmp_path / "c")

    first.close()
    Checkpoint(tmp_path / "c").close()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sink__payload__schema": "month BIGINT, carrier STRING"}, "field 'month' was INT"),
        ({"sink__payload__format": "Raw", "sink__payload__schema": None}, "sink.payload.format"),
        ({"sink__files__path": "/elsewhere"}, "sink.files.path"),
        ({"sink__files__partitionBy": []}, "sink.files.partitionBy"),
        ({"topic": "arrivals"}, "topic: was 'departures'"),
    ],
)
def test_a_change_that_would_mix_data_is_refused(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.remember(load(tmp_path, job()))

    with pytest.raises(OptionError, match=told):
        checkpoint.remember(load(tmp_path, job(**changes)))
    checkpoint.close()


def test_new_fields_and_other_settings_may_change(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.remember(load(tmp_path, job()))

    wider = "month INT, carrier STRING, origin STRING"
    checkpoint.remember(load(tmp_path, job(sink__payload__schema=wider, once=False)))

    with pytest.raises(OptionError, match="field 'origin' was STRING and is INT"):
        checkpoint.remember(
            load(tmp_path, job(sink__payload__schema="month INT, carrier STRING, origin INT"))
        )
    checkpoint.close()


def test_a_recreated_topic_is_noticed_at_the_start(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.check_incarnation("1-100", restart=False)
    checkpoint.state("1-100").mkdir(parents=True)

    checkpoint.check_incarnation("1-100", restart=False)
    checkpoint.check_incarnation("1-200", restart=True)
    with pytest.raises(TopicRecreated, match=r"onTopicRecreated to Restart"):
        checkpoint.check_incarnation("1-200", restart=False)
    checkpoint.close()


def test_bad_messages_need_a_place(tmp_path: Path) -> None:
    tolerant = {"sink__errors": {"tolerance": "Data"}}

    with pytest.raises(OptionError, match=r"needs errors\.deadLetter, the topic for bad messages"):
        load(tmp_path, job(**tolerant, sink__type="Console", sink__files=None))
    load(tmp_path, job(**tolerant))
    load(tmp_path, job(sink__errors={"tolerance": "Data", "deadLetter": {"topic": "dead"}}))


def test_how_long_a_target_is_tried_again(tmp_path: Path) -> None:
    given = {"timeout": "1m", "initialDelay": "100ms", "maxDelay": "2s"}

    assert load(tmp_path, job()).retry_policy == Policy(600.0, 0.5, 30.0)
    assert load(tmp_path, job(sink__errors__retry=given)).retry_policy == Policy(60.0, 0.1, 2.0)


def test_transforms_come_with_the_payload(tmp_path: Path) -> None:
    transforms = [{"metadata_to_fields": {"fields": ["topic"]}}]
    declared = job(
        sink__payload__schema="month INT, iggy_topic STRING", sink__transforms=transforms
    )

    found = load(tmp_path, declared).payload

    assert [item.name for item in found.fields] == ["month", "iggy_topic"]
    assert [one.place for one in found.transforms] == ["sink.transforms[0].metadata_to_fields"]


@pytest.mark.parametrize(
    ("block", "path_style"),
    [
        (blocks.S3(), False),
        (blocks.S3(endpoint="http://store:1"), True),
        (blocks.S3(endpoint="http://store:1", path_style=False), False),
        (blocks.S3(path_style=True), True),
    ],
)
def test_a_store_that_is_not_amazons_has_buckets_by_path(
    block: blocks.S3, path_style: bool
) -> None:
    assert block.connection().path_style is path_style
