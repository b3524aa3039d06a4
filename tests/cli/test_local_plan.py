"""What a laptop can and cannot do with resources, before anything runs."""

from pathlib import Path

import pytest

from iggy_operator.documents import DocumentErrors
from iggy_operator.resources import load
from iggykube.local.folders import Folders, Ports
from iggykube.local.plan import LocalPlan, make_plan

HEAD = "apiVersion: iggykube.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n"
STREAM = HEAD % ("IggyStream", "shop", "{}")
LAKE = "{name: lake, type: Files, files: {path: %s}, checkpoint: {%s}}"


def plan(tmp_path: Path, *documents: str) -> LocalPlan:
    path = tmp_path / "shop.yaml"
    path.write_text("---\n".join(documents))
    return make_plan(load([path]), Folders.at(tmp_path / "data"), Ports(8090, 9099))


def topic(*sinks: str, name: str = "orders", stream: str = "shop") -> str:
    return HEAD % (
        "IggyTopic",
        name,
        f"{{streamRef: {{name: {stream}}}, sinks: [{', '.join(sinks)}]}}",
    )


def test_a_job_gets_absolute_paths_defaults_and_no_launcher_fields(tmp_path: Path) -> None:
    made = plan(tmp_path, STREAM, topic(LAKE % ("lake/orders", "volume: {}")))

    job = made.sinks[0].job
    assert job["name"] == "orders.lake"
    assert job["sink"]["files"]["path"] == f"{tmp_path}/data/files/lake/orders"
    assert job["checkpoint"] == f"{tmp_path}/data/claims/default/orders.lake-checkpoint"
    assert job["sink"]["files"]["format"] == "Parquet"
    assert not {"checkpoint", "restart", "suspend", "lag", "name"} & set(job["sink"])
    assert set(job["sink"]["spark"]) == {"driver", "conf"}
    assert job["once"] is False


def test_an_existing_claim_is_shared_with_a_folder_for_each_sink(tmp_path: Path) -> None:
    claim = "volume: {existingClaim: shared}"

    made = plan(tmp_path, STREAM, topic(LAKE % ("lake", claim)))

    checkpoint = Path(made.sinks[0].job["checkpoint"])
    assert checkpoint == tmp_path / "data/claims/default/shared/orders.lake"


def test_a_sink_of_its_own_joins_its_topic(tmp_path: Path) -> None:
    own = HEAD % ("IggySink", "show", "{topicRef: {name: orders}, type: Console}")

    made = plan(tmp_path, STREAM, topic(), own)

    assert [sink.name for sink in made.topics[0].sinks] == ["show"]
    assert made.sinks[0].stream_name == "shop"


def test_settings_of_a_broker_become_its_environment(tmp_path: Path) -> None:
    spec = "{shards: {count: 2}, config: {system.partition.enforce_fsync: 'true'}}"

    made = plan(tmp_path, HEAD % ("IggyBroker", "iggy", spec), STREAM)

    assert made.broker_environment == {
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
        "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC": "true",
    }


@pytest.mark.parametrize(
    ("documents", "where", "words"),
    [
        ([STREAM, topic(stream="shp")], ":9:", "did you mean shop?"),
        ([topic()], ":4:", "add a document of kind IggyStream"),
        ([STREAM, topic(LAKE % ("s3a://b/x", "volume: {}"))], ":9:", "writes into folders"),
        ([STREAM, topic(LAKE % ("../../x", "volume: {}"))], ":9:", "must stay below"),
        ([STREAM, topic(LAKE % (".", "volume: {}"))], ":9:", "must stay below"),
        ([STREAM, topic(LAKE % ("x", "location: 's3a://b/x'"))], ":9:", "use volume: {}"),
        ([HEAD % ("IggyBroker", "main", "{}"), STREAM], ":9:", "here are main and iggy"),
        ([STREAM, topic(), topic(name="b").replace("spec: {", "spec: {topicName: orders, ")],
         ":13:", "both stand for shop/orders"),
        ([HEAD % ("IggyBroker", "iggy", "{mode: External, external: {tcp: 'a:1', http: "
                  "'http://a', credentialsSecretName: x}}")], ":4:", "runs its own broker"),
        ([STREAM, topic(), HEAD % ("IggySink", "x", "{topicRef: {name: order}, type: Console}")],
         ":14:", "did you mean orders?"),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_told_at_its_place(
    tmp_path: Path, documents: list[str], where: str, words: str
) -> None:
    with pytest.raises(DocumentErrors) as caught:
        plan(tmp_path, *documents)

    assert len(caught.value.problems) == 1
    assert where in str(caught.value)
    assert words in str(caught.value)
