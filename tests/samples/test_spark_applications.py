"""Users' own Spark programs: the samples' manifests fit, and the program does what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from broker_process import PASSWORD, USERNAME, running_broker
from foreign_schemas import APACHE_FILE, KUBEFLOW_FILE, misfits, spec_schema
from iggy_operator.documents import LOADER
from iggy_operator.resources import load
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from page_samples import ROOT, yaml
from quick_java import QUICK

FOLDER = ROOT / "docs" / "samples" / "spark-applications"
PROGRAM = FOLDER / "delays.py"
PROGRAM_S = 400.0  # a Java and a Spark start in it, perhaps on a busy machine


@pytest.mark.parametrize("file", ["user.yaml", "kubeflow.yaml", "apache.yaml"])
def test_the_page_shows_the_files_as_they_are(file: str) -> None:
    page = (ROOT / "docs" / "spark-applications.md").read_text()

    assert f"```yaml\n{(FOLDER / file).read_text()}```" in page


def test_the_page_of_images_shows_the_settings_of_tables_as_they_are() -> None:
    page = (ROOT / "docs" / "images.md").read_text()

    # tests/spark/test_spark_older.py runs the program with them.
    assert f"```properties\n{(FOLDER / 'tables.conf').read_text()}```" in page


@pytest.mark.parametrize(
    ("file", "schema", "version"),
    [("kubeflow.yaml", KUBEFLOW_FILE, "v1beta2"), ("apache.yaml", APACHE_FILE, "v1")],
)
def test_an_application_fits_its_operator(file: str, schema: str, version: str) -> None:
    document = yaml.load((FOLDER / file).read_text(), Loader=LOADER)

    assert document["apiVersion"].endswith(f"/{version}")
    assert list(misfits(document["spec"], spec_schema(schema, version))) == []


def test_both_run_the_same_program_with_the_login_of_the_user() -> None:
    kubeflow, apache = (
        yaml.load((FOLDER / file).read_text(), Loader=LOADER)["spec"]
        for file in ("kubeflow.yaml", "apache.yaml")
    )
    (user,) = load([FOLDER / "user.yaml"]).users

    assert kubeflow["arguments"] == apache["driverArgs"]
    assert kubeflow["mainApplicationFile"] == apache["pyFiles"]
    assert Path(apache["pyFiles"]).name == PROGRAM.name
    for spec in (kubeflow, apache):
        for role in ("driver", "executor"):
            mounted = f"spark.kubernetes.{role}.secrets.{user.key.name}-iggy"
            assert spec["sparkConf"][mounted] == "/etc/iggy"


@pytest.mark.timeout(600)  # a Java and a Spark start
def test_the_program_keeps_what_was_late(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "username").write_text(USERNAME)
    (login / "password").write_text(PASSWORD)
    with running_broker(tmp_path / "broker") as broker, broker.client() as client:
        client.create_stream("flights")
        client.create_topic("flights", "departures", 2)

        flights = [("UA", 10), ("UA", 15), ("UA", 20), ("AA", -4)]
        messages = [
            Message(json.dumps({"carrier": carrier, "dep_delay": delay}).encode(), id=1 + n)
            for n, (carrier, delay) in enumerate(flights)
        ]
        client.send("flights", "departures", Partitioning.partition(0), messages)
        command = [
            sys.executable, str(PROGRAM), f"--servers={broker.address}", f"--credentials={login}",
            f"--target={tmp_path / 'delays'}", f"--checkpoint={tmp_path / 'checkpoint'}", "--once",
        ]  # fmt: skip

        done = subprocess.run(
            command,
            env={**os.environ, **QUICK, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        found = client.get_group("flights", "departures", "delays")
        assert found is not None
        assert found.group.members_count == 0
    written = ds.dataset(tmp_path / "delays", format="parquet", partitioning="hive").to_table()
    rows = [(row["carrier"], row["dep_delay"], row["offset"]) for row in written.to_pylist()]
    assert sorted(rows) == [("UA", 15, 1), ("UA", 20, 2)]
