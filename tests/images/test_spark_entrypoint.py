"""The first process of the spark image, run by the shells of the image: what it would start."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "images/spark"
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1408m",
    "SPARK_APPLICATION_ID": "spark-1f",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "job-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"no {request.param} on this machine")
    return str(found)


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """Variables of a container in which `tini` prints what it would run, a word a line."""
    tools = tmp_path / "bin"
    tools.mkdir()
    tini = tools / "tini"
    tini.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\necho "= ${LD_PRELOAD:-} ${NSS_WRAPPER_PASSWD:-}"\n'
    )
    tini.chmod(0o755)
    return {
        "PATH": f"{tools}:/usr/bin:/bin",
        "SPARK_HOME": "/opt/spark",
        "TMPDIR": str(tmp_path),
    }


def run(shell: str, world: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    script = str(SCRIPTS / "entrypoint.sh")
    return subprocess.run(
        [shell, script, *words], env=world, capture_output=True, text=True, check=False, timeout=20
    )


def started(shell: str, world: Mapping[str, str], *words: str) -> list[str]:
    done = run(shell, world, *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["-s", "--"], "everything runs below tini"
    return lines[2:-1]


@pytest.mark.parametrize("name", ["entrypoint.sh", "user.sh", "spark-env.sh"])
def test_the_scripts_are_valid(shell: str, name: str) -> None:
    done = subprocess.run([shell, "-n", str(SCRIPTS / name)], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_driver_is_submitted_in_client_mode_with_its_arguments(
    shell: str, world: dict[str, str]
) -> None:
    words = ["--properties-file", "/opt/spark/conf/spark.properties", "--class", "a.B"]
    program = ["local:///opt/iggykube/sink_job.py", "--config", "/etc/a b.json", ""]

    found = started(
        shell, {**world, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.5"}, "driver", *words, *program
    )

    assert found == [
        "/opt/spark/bin/spark-submit",
        "--conf",
        "spark.driver.bindAddress=10.0.0.5",
        "--conf",
        "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.5",
        "--deploy-mode",
        "client",
        *words,
        *program,
    ]


def test_an_executor_is_the_java_that_the_variables_describe(
    shell: str, world: dict[str, str]
) -> None:
    found = started(shell, {**world, **EXECUTOR}, "executor")

    assert found[:5] == ["java", "-Xms1408m", "-Xmx1408m", "-cp", "/opt/spark/jars/*"]
    assert found[5] == BACKEND
    assert dict(zip(found[6::2], found[7::2], strict=True)) == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1f",
        "--hostname": "10.0.0.7",
        "--podName": "job-exec-3",
        "--resourceProfileId": "0",
    }


def test_java_options_keep_their_order_and_every_character(
    shell: str, world: dict[str, str]
) -> None:
    options = [
        "-Dfirst=1",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-Dtext=with  two spaces",
        '-Dquotes=it\'s "so"',
        "-Ddollar=$HOME `id` $(id) \\n",
        "-Dstar=*",
        *(f"-Dn={number}" for number in range(6, 12)),
    ]
    variables = {f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)}

    found = started(shell, {**world, **EXECUTOR, **variables}, "executor")

    assert found[0] == "java"
    assert found[1 : 1 + len(options)] == options


def test_an_executors_classpath_has_folders_of_settings_and_own_jars_first(
    shell: str, world: dict[str, str]
) -> None:
    variables = {
        "SPARK_CLASSPATH": "/own/a.jar",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "JAVA_HOME": "/java",
    }

    found = started(shell, {**world, **EXECUTOR, **variables}, "executor")

    assert found[0] == "/java/bin/java"
    assert (
        found[found.index("-cp") + 1] == "/etc/hadoop:/opt/spark/conf:/own/a.jar:/opt/spark/jars/*"
    )


def test_any_other_command_is_run_as_it_stands(shell: str, world: dict[str, str]) -> None:
    words = ["python", "-m", "iggy_spark.sink_job", "--config", "/etc/iggy sink/sink.json"]

    assert started(shell, world, *words) == words


@pytest.mark.parametrize("missing", EXECUTOR)
def test_a_missing_variable_is_named(shell: str, world: dict[str, str], missing: str) -> None:
    variables = {name: value for name, value in EXECUTOR.items() if name != missing}

    done = run(shell, {**world, **variables}, "executor")

    assert done.returncode == 64
    assert f"{missing} is not set" in done.stderr
    assert done.stdout == ""


def test_nothing_to_run_is_an_error(shell: str, world: dict[str, str]) -> None:
    done = run(shell, world)

    assert done.returncode == 64
    assert "say what to run" in done.stderr


def test_somebody_whom_the_image_knows_keeps_his_name(shell: str, world: dict[str, str]) -> None:
    done = run(shell, world, "true")

    assert done.stdout.splitlines()[-1].split() == ["="]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a name")
def test_somebody_unknown_gets_a_name(shell: str, world: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:  # tmp_path is closed to other users
        place = Path(scratch)
        place.chmod(0o777)
        shutil.copytree(SCRIPTS, place / "scripts")
        shutil.copy(Path(world["PATH"].partition(":")[0], "tini"), place)

        done = subprocess.run(
            [shell, str(place / "scripts/entrypoint.sh"), "true"],
            env={**world, "PATH": f"{place}:/usr/bin:/bin", "TMPDIR": scratch},
            user=54321,
            group=0,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )

        assert done.returncode == 0, done.stderr
        _, preloaded, names = done.stdout.splitlines()[-1].split()
        assert preloaded == "libnss_wrapper.so"
        lines = Path(names).read_text().splitlines()
        assert "spark-54321:x:54321:0::/tmp:/usr/sbin/nologin" in lines
