"""Loading the configuration: layers, spellings, refusals, warnings, and the reference of keys."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from iggy_broker import config
from iggy_broker.config import KEYS, ConfigError, Loaded
from iggy_broker.config_planned import PLANNED
from iggy_broker.config_sections import SHARDS_MAX
from iggy_broker.config_values import Address


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def from_file(text: str, **environ: str) -> Loaded:
    path = Path("broker.toml")
    path.write_text(text)
    return config.load(path, environ)


def test_defaults() -> None:
    loaded = config.load(None, {})

    assert loaded.warnings == ()
    assert loaded.source is None
    assert loaded.config.tcp.address == Address("127.0.0.1", 8090)
    assert loaded.config.monitoring.address == Address("127.0.0.1", 9099)
    assert loaded.config.system.path == Path("local_data")
    assert loaded.config.root.username == "iggy"
    assert not loaded.config.root.password


def test_the_environment_beats_the_file_and_the_file_the_defaults() -> None:
    text = '[tcp]\naddress = "0.0.0.0:1"\n[system]\npath = "file"\n[system.segment]\nsize = 1000'

    loaded = from_file(text, IGGY_TCP_ADDRESS="0.0.0.0:2")

    assert loaded.config.tcp.address.port == 2
    assert loaded.config.system.path == Path("file")
    assert loaded.config.system.segment.size_bytes == 1000
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["server.toml", "config.toml"])
def test_a_file_with_a_known_name_is_found(name: str) -> None:
    Path(name).write_text('[tcp]\naddress = "0.0.0.0:7"')

    loaded = config.load(None, {})

    assert loaded.source == Path(name)
    assert loaded.config.tcp.address.port == 7


def test_the_variable_that_names_the_file_wins() -> None:
    Path("server.toml").write_text('[tcp]\naddress = "0.0.0.0:7"')
    Path("other.toml").write_text('[tcp]\naddress = "0.0.0.0:8"')

    assert config.load(None, {"IGGY_CONFIG_PATH": "other.toml"}).config.tcp.address.port == 8


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("IGGY_SYSTEM_PATH", "/d"), ("IGGY_PATH", "/d"),
    ],
)  # fmt: skip
def test_the_data_directory_has_two_variables(spelling: str, value: str) -> None:
    assert config.load(None, {spelling: value}).config.system.path == Path(value)


def test_the_production_file_of_the_documents_loads() -> None:
    loaded = from_file(
        """
        [system]
        path = "local_data"
        [system.partition]
        enforce_fsync = true
        messages_required_to_save = 1
        [system.segment]
        size = "1 GB"
        cache_indexes = true
        validate_checksum = true
        message_expiry = "none"
        [message_saver]
        enabled = true
        enforce_fsync = true
        interval = "1s"
        [topic]
        max_topic_size = "100 GB"
        delete_oldest_segments = true
        [data_maintenance.archiver]
        enabled = true
        kind = "s3"
        [data_maintenance.archiver.s3]
        bucket = "backup"
        key_id = "AKIA"
        key_secret = "hunter2"
        """
    )

    system = loaded.config.system
    assert system.partition.enforce_fsync
    assert system.partition.messages_required_to_save == 1
    assert system.partition.message_saver.interval_us == 1_000_000
    assert system.segment.size_bytes == 10**9
    assert system.topic.max_size_bytes == 100 * 10**9
    archiver = loaded.config.data_maintenance.archiver
    assert (archiver.enabled, archiver.kind, archiver.s3.bucket) == (True, "s3", "backup")
    assert (archiver.s3.access_key_id, archiver.s3.secret_access_key) == ("AKIA", "hunter2")
    assert system.segment.cache_indexes == "all"
    assert not loaded.warnings
    assert "hunter2" not in "".join(loaded.warnings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[tcp]\naddress = "nowhere"', ["broker.toml: tcp.address", "'nowhere'", "host:port"]),
        (
            '[tcp]\nadvertised_address = "iggy.example:65536"',
            ["broker.toml: tcp.advertised_address", "'iggy.example:65536'", "at most 65535"],
        ),
        ("[system.segment]\nsize = true", ["system.segment.size", "True", "512 MiB"]),
        ('[system.partition]\nenforce_fsync = "yes"', ["enforce_fsync", "'yes'", "true or false"]),
        (
            "[system.partition]\nmessages_required_to_save = 0",
            ["messages_required_to_save", "1 to"],
        ),
        ('[message_saver]\ninterval = "0 s"', ["message_saver.interval", "above 0"]),
        ("[tcp\n", ["broker.toml", "not valid TOML"]),
    ],
)
def test_a_wrong_value_names_file_key_value_and_fix(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_file(text)

    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("true", "all"), ("ALL", "all"), ("open_segment", "open_segment"), ("false", "none")],
)
def test_which_indexes_stay_in_memory_may_be_said_as_ever(text: str, kept: str) -> None:
    loaded = config.load(None, {"IGGY_SYSTEM_SEGMENT_CACHE_INDEXES": text}).config
    assert loaded.system.segment.cache_indexes == kept
    assert from_file(f'[system.segment]\ncache_indexes = "{text}"').config == loaded


def test_a_wrong_variable_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"IGGY_TCP_ADDRESS = 'x': write host:port"):
        config.load(None, {"IGGY_TCP_ADDRESS": "x"})


def test_a_missing_file_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read .* IGGY_CONFIG_PATH"):
        config.load(None, {"IGGY_CONFIG_PATH": "gone.toml"})


def test_two_spellings_must_agree() -> None:
    same = '[system.partition.message_saver]\ninterval = "1 s"\n[message_saver]\ninterval = "1s"'

    assert from_file(same).config.system.partition.message_saver.interval_us == 1_000_000
    with pytest.raises(ConfigError, match=r"message_saver\.interval .* says otherwise"):
        from_file(same.replace('"1s"', '"2s"'))
    with pytest.raises(ConfigError, match="IGGY_SYSTEM_PATH"):
        config.load(None, {"IGGY_PATH": "/a", "IGGY_SYSTEM_PATH": "/b"})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("IGGY_TCP_ADRESS", "IGGY_TCP_ADDRESS"),
        ("IGGY_SYSTEM_PARTITION_ENFORCE_SYNC", "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC"),
    ],
)
def test_an_unknown_variable_is_a_warning_with_the_nearest_name(name: str, nearest: str) -> None:
    loaded = config.load(None, {name: "1"})

    assert loaded.warnings == (f"{name}: unknown setting; did you mean {nearest}?",)


def test_an_unknown_key_is_a_warning_or_an_error_if_strict() -> None:
    text = "[system.partition]\nenforce_fsnyc = true"

    (warning,) = from_file(text).warnings
    assert "did you mean system.partition.enforce_fsync?" in warning
    with pytest.raises(ConfigError, match="enforce_fsnyc"):
        from_file(text, IGGY_CONFIG_STRICT="true")


def test_planned_keys_warn_only_if_they_ask_for_something() -> None:
    text = '[cluster]\nenabled = true\nname = "one"\n[tracing]\nenabled = false'

    loaded = from_file(text, IGGY_TRACING_ENABLED="false", IGGY_TELEMETRY_ENABLED="true")

    assert [warning.split(": known")[0] for warning in loaded.warnings] == [
        "broker.toml: cluster.enabled",
        "broker.toml: cluster.name",
        "IGGY_TELEMETRY_ENABLED",
    ]


def test_planned_lists_are_known() -> None:
    text = '[[cluster.nodes]]\nname = "a"\n[[cluster.nodes]]\nname = "b"'

    loaded = from_file(text, IGGY_CLUSTER_NODES_0_NAME="c", IGGY_ENV_PATH=".env")

    assert len(loaded.warnings) == 3
    assert all("does not use it yet" in warning for warning in loaded.warnings)


def test_a_typo_is_not_mistaken_for_a_service_of_kubernetes() -> None:
    (warning,) = config.load(None, {"IGGY_TCP_PORT": "8090"}).warnings

    assert "IGGY_TCP_PORT: unknown setting" in warning


def test_variables_that_are_no_settings_are_left_alone() -> None:
    environ = {
        "IGGY_SERVICE_HOST": "10.0.0.1",
        "IGGY_SERVICE_PORT": "8090",
        "IGGY_SERVICE_PORT_TCP": "8090",
        "IGGY_PORT": "tcp://10.0.0.1:8090",
        "IGGY_PORT_8090_TCP": "tcp://10.0.0.1:8090",
        "IGGY_PORT_8090_TCP_ADDR": "10.0.0.1",
        "IGGY_HEADLESS_SERVICE_HOST": "10.0.0.2",
        "IGGY_TCP_ADDRESS": "  ",
        "IGGY_ROOT_USERNAME": "root",
        "IGGY_ROOT_PASSWORD": "hunter2",
        "PATH": "/bin",
    }

    loaded = config.load(None, environ)

    assert loaded.warnings == ()
    assert loaded.config.tcp.address.port == 8090
    assert (loaded.config.root.username, loaded.config.root.password) == ("root", "hunter2")
    assert "hunter2" not in repr(loaded)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"IGGY_ROOT_USERNAME": "iggy"}, "IGGY_ROOT_PASSWORD is not set"),
        ({"IGGY_ROOT_PASSWORD": "iggy"}, "IGGY_ROOT_USERNAME is not set"),
        ({"IGGY_ROOT_USERNAME": "ab", "IGGY_ROOT_PASSWORD": "iggy"}, "3 to 50 bytes"),
        ({"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "ab"}, "3 to 100 bytes"),
    ],
)
def test_root_credentials_come_in_pairs_that_can_log_in(
    environ: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        config.load(None, environ)


@pytest.mark.parametrize(
    ("allocation", "cores", "shards"),
    [("all", 4, 4), ("2", 4, 2), ("8", 4, 8), ("0..3", 16, 3), ("all", 0, 1), ("all", 999, 64)],
)
def test_the_number_of_shards(allocation: str, cores: int, shards: int) -> None:
    loaded = config.load(None, {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": allocation})

    assert loaded.config.shards_count(cores) == shards <= SHARDS_MAX


def test_the_effective_configuration_reads_back_without_secrets() -> None:
    environ = {
        "IGGY_TCP_ADDRESS": "[::1]:0",
        "IGGY_SYSTEM_PATH": 'a "quoted" \\ path',
        "IGGY_SYSTEM_SEGMENT_MESSAGE_EXPIRY": "90 s",
        "IGGY_ROOT_USERNAME": "root",
        "IGGY_ROOT_PASSWORD": "hunter2",
    }
    loaded = config.load(None, environ)

    text = config.effective(loaded.config)

    assert "hunter2" not in text
    again = from_file(text)
    assert again.warnings == ()
    assert again.config.system == loaded.config.system
    assert again.config.tcp == loaded.config.tcp
    assert tomllib.loads(text)["tcp"]["address"] == "[::1]:0"


def test_the_sample_is_every_default_with_a_line_of_meaning() -> None:
    text = config.sample()

    assert from_file(text).config == config.load(None, {}).config
    for key in KEYS:
        assert key.setting.doc.endswith("."), key.path
        assert f"# {key.variable}\n" in text


def test_every_key_and_variable_is_known_once() -> None:
    spellings = [spelling for key in KEYS for spelling in key.spellings]

    assert len(spellings) == len(set(spellings))
    assert not PLANNED & set(spellings)
    variables = {spelling.replace(".", "_").upper() for spelling in (*spellings, *PLANNED)}
    assert len(variables) == len(spellings) + len(PLANNED)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_default_can_be_written_and_read(key: config.Key) -> None:
    assert key.setting.parse(key.setting.show(key.default)) == key.default


def test_the_sample_file_is_up_to_date() -> None:
    path = Path(config.__file__).with_name("server.toml")

    assert path.read_text() == config.sample(), (
        f"write config.sample() to {path}: the settings have changed"
    )


def test_every_setting_is_obeyed_somewhere() -> None:
    package = Path(config.__file__).parent
    sources = [path for path in package.rglob("*.py") if not path.name.startswith("config")]
    code = "\n".join(path.read_text() for path in sources)

    unread = [key.path for key in KEYS if not re.search(rf"\.{key.attributes[-1]}\b", code)]
    assert unread == ["system.sharding.cpu_allocation"], "read by Config.shards_count"
    assert ".shards_count(" in code
