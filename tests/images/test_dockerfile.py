"""What the Dockerfile promises, read from it: no builder is needed here."""

import json
import os
import re
import subprocess
import tomllib

import pytest

from dockerfile import FINAL, ROOT, image, stages, text
from iggy_operator.desired import broker_pod, transports
from iggy_operator.launchers import kubeflow, native, pods
from image_builder import inputs

USERS = {
    "broker": "10001:10001",
    "operator": "10001:10001",
    "spark": "185:185",
    "spark-4.1": "185:185",
    "spark-4.2": "185:185",
}
SPARKS = {name: f"images/{name}" for name in ("spark", *inputs.VARIANTS)}
HADOOPS = {"4.1": "3.4.2", "4.2": "3.5.0"}  # inside its PySpark
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_there_is_a_stage_for_each_image() -> None:
    assert set(FINAL) <= set(stages())
    assert set(FINAL) == {*inputs.STAGES, *inputs.VARIANTS}


@pytest.mark.parametrize("name", FINAL)
def test_an_image_runs_as_its_user_by_number(name: str) -> None:
    # By number: Kubernetes' runAsNonRoot cannot judge a name.
    assert image(name).last("USER") == USERS[name]
    assert image(name).steps[-2][0] == "USER", "nothing is done as root after it"


def test_the_operator_runs_pods_as_the_users_of_the_images() -> None:
    assert USERS["broker"] == f"{broker_pod.USER_ID}:{broker_pod.USER_ID}"
    assert {USERS[name] for name in SPARKS} == {f"{pods.USER_ID}:{pods.USER_ID}"}


@pytest.mark.parametrize("name", FINAL)
def test_an_image_starts_its_program_without_a_shell_and_stops_on_sigterm(name: str) -> None:
    stage = image(name)

    (entrypoint,) = json.loads(stage.last("ENTRYPOINT"))

    assert stage.last("STOPSIGNAL") == "SIGTERM"
    assert entrypoint == ("spark-entrypoint" if name in SPARKS else f"iggy-{name}")
    copies = [*stage.all("COPY"), *(stages()["spark-code"].all("COPY") if name in SPARKS else ())]
    assert any(
        words.split()[-1].endswith(entrypoint) or entrypoint in words.split()[-2]
        for words in copies
    )


@pytest.mark.parametrize("name", FINAL)
def test_an_image_says_what_it_is(name: str) -> None:
    prefix = "org.opencontainers.image."
    labels = image(name).labels()

    assert labels[f"{prefix}title"] == f"iggykube/{name}"
    assert labels[f"{prefix}version"] == "${VERSION}"
    assert labels[f"{prefix}licenses"] == PROJECT["license"]
    assert labels[f"{prefix}base.name"] == "debian:bookworm-slim"
    assert "compatible with" in labels[f"{prefix}description"] or name != "broker"


@pytest.mark.parametrize("name", FINAL)
def test_an_image_takes_the_libraries_of_its_own_extra_only(name: str) -> None:
    sources = {source for words in image(name).all("COPY") for source in _other_stage(words)}
    libraries = stages()[f"{name}-libraries"].last("RUN")

    extra = "spark" if name in SPARKS else name
    assert extra in PROJECT["optional-dependencies"]
    assert f"images/steps/install-chosen tools {name} " in libraries
    assert _chosen()[name].split()[0] == extra
    assert {one for one in sources if one.endswith("-libraries")} == {f"{name}-libraries"}


def _chosen() -> dict[str, str]:
    """By file, what is asked for."""
    found = re.findall(
        r"locked.py extra ([a-z0-9. -]+) >/chosen/([a-z0-9.-]+)", stages()["chosen"].last("RUN")
    )
    return {file: words for words, file in found}


def test_a_variant_has_its_own_spark_and_no_libraries_of_sinks() -> None:
    # Sinks run on the other one: what they need has no use here.
    chosen = _chosen()
    assert {name: chosen[name] for name in inputs.VARIANTS} == {
        name: f"spark instead {name}.lock" for name in inputs.VARIANTS
    }
    assert chosen["spark"] == "spark sinks"
    copies = stages()["chosen"].all("COPY")
    assert {f"images/{name}/pyspark.lock {name}.lock" for name in inputs.VARIANTS} <= set(copies)


def _other_stage(words: str) -> list[str]:
    return re.findall(r"--from=(\S+)", words)


@pytest.mark.parametrize("name", FINAL)
def test_no_compiler_and_no_installer_of_a_build_reaches_an_image(name: str) -> None:
    installed = " ".join(image(name).all("RUN"))

    assert not re.search(r"\b(gcc|python3-dev|python3-pip|python3-venv|maven)\b", installed)


@pytest.mark.parametrize("name", FINAL)
def test_no_volume_is_declared(name: str) -> None:
    # A container engine would make one where nobody mounted any, and data would go with the pod.
    assert image(name).all("VOLUME") == []


def test_everything_that_is_copied_is_there_and_let_through() -> None:
    let_through = {str(path.relative_to(ROOT)) for path in inputs.files(ROOT)}
    copied = [
        source
        for stage in stages().values()
        for words in stage.all("COPY")
        if not words.startswith("--from")
        for source in words.split()[:-1]
    ]

    assert len(copied) > 10
    for source in copied:
        assert any(one == source or one.startswith(f"{source}/") for one in let_through), source


def test_the_steps_that_are_run_can_be_run() -> None:
    runs = f"{' '.join(_runs())} ".replace("./fetch-jars ", "images/steps/fetch-jars ")
    steps = set(re.findall(r"(images/steps/[\w-]+)(?= )", runs))

    names = ("fetch-jars", "install-chosen", "move-spark", "trim")
    assert steps == {f"images/steps/{name}" for name in names}
    for step in steps:
        assert os.access(ROOT / step, os.X_OK), step
        done = subprocess.run(["sh", "-n", step], cwd=ROOT, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def _runs() -> list[str]:
    return [words for stage in stages().values() for words in stage.all("RUN")]


def test_java_is_installed_once() -> None:
    assert sum("openjdk" in words for words in _runs()) == 1
    assert stages()["spark-base"].base == stages()["maven"].base == "java"
    assert {stages()[name].base for name in SPARKS} == {"spark-base"}
    assert {stages()[f"{name}-jars"].base for name in SPARKS} == {"maven"}


def test_nothing_comes_from_an_address_or_without_a_version() -> None:
    assert "://" not in text().replace("s3a://", "")
    assert not re.search(r"^ADD ", text(), re.M)
    assert ":latest" not in text()
    assert re.findall(r"^ARG BASE=(.*)$", text(), re.M) == ["debian:bookworm-slim"]


def test_no_processor_is_named() -> None:
    assert not re.search(r"amd64|arm64|x86_64|aarch64", text())


def test_no_secret_of_a_build_stays_in_a_layer() -> None:
    assert not re.search(
        r"^(COPY|ARG|ENV) .*(pip\.conf|settings\.xml|TOKEN|PASSWORD)", text(), re.M
    )
    for name in FINAL:
        assert "PIP_" not in " ".join(stages()[name].variables())


def test_paths_are_those_that_the_operator_uses() -> None:
    copies = " ".join(stages()["spark-code"].all("COPY"))
    environment = image("broker").variables()

    assert kubeflow.PROGRAM == "local:///opt/iggykube/sink_job.py"
    assert "images/spark/sink_job.py /opt/iggykube/" in copies
    assert native.COMMAND[:2] == ("python", "-m")
    assert environment["PATH"].startswith("/opt/iggykube/bin:")
    assert environment["IGGY_TCP_ADDRESS"] == f"0.0.0.0:{transports.TCP_PORT}"
    assert environment["IGGY_HTTP_ADDRESS"] == f"0.0.0.0:{transports.HTTP_PORT}"
    assert environment["IGGY_MONITORING_ADDRESS"] == f"0.0.0.0:{transports.MONITORING_PORT}"


@pytest.mark.parametrize("name", SPARKS)
def test_jars_are_named_with_their_bytes(name: str) -> None:
    lines = (ROOT / SPARKS[name] / "jars.sha256").read_text().splitlines()
    names = [line.split()[1] for line in lines]

    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.jar", line) for line in lines)
    assert names == sorted(set(names), key=names.index)
    for artifact, version in _asked_for(name).items():
        artifact = artifact.replace("bom", "s3")
        assert f"{artifact}-{version}.jar" in names


def test_jars_have_the_versions_that_spark_was_built_with() -> None:
    assert _asked_for("spark") == {"bom": "2.35.4", "hadoop-aws": _hadoop_of_spark()}


@pytest.mark.parametrize("name", inputs.VARIANTS)
def test_tables_are_for_the_spark_of_the_variant(name: str) -> None:
    asked = _asked_for(name)
    spark = name.removeprefix("spark-")
    (version,) = re.findall(r"^pyspark==(\S+)", (ROOT / SPARKS[name] / "pyspark.lock").read_text())

    of_spark = {re.search(r"_?(\d\.\d)_2\.13$|$", one)[1] for one in asked}
    assert of_spark - {None} == {version.rpartition(".")[0]} == {spark}
    page = (ROOT / "docs/images.md").read_text()
    for part in (version, *asked.values()):
        assert part in page, "the page names what is in the image"
    assert asked["hadoop-aws"] == HADOOPS[spark]
    assert {v for artifact, v in asked.items() if artifact.startswith("delta-")} == {"4.4.0"}


def _asked_for(name: str) -> dict[str, str]:
    """By artifact, its version, where the list names one."""
    pom = (ROOT / SPARKS[name] / "pom.xml").read_text()
    found = re.findall(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)<", pom)
    return {artifact: version for artifact, version in found if version != "1"}


def _hadoop_of_spark() -> str:
    import pyspark

    (jar,) = (ROOT / pyspark.__path__[0] / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def test_what_links_of_the_code_lead_to_is_copied_too() -> None:
    copied = {word for words in stages()["code"].all("COPY") for word in words.split()[:-1]}
    links = [
        path
        for name in copied
        if (ROOT / name).is_dir()
        for path in (ROOT / name).rglob("*")
        if path.is_symlink()
    ]

    assert links, "at least the operator has one to its definitions"
    for link in links:
        assert link.resolve().relative_to(ROOT).parts[0] in copied, f"{link} would dangle"
