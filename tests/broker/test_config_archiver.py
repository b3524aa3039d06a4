"""Settings of the archive: from a file, from the environment, and what is said of wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iggy_broker import config
from iggy_broker.config import ConfigError
from iggy_broker.config_maintenance import Archiver

ROOT = Path(__file__).resolve().parents[2]
NAME = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
FILE = """
[data_maintenance.archiver]
enabled = true
kind = "disk"
[data_maintenance.archiver.s3]
bucket = "of-the-file"
"""


def read(tmp_path: Path, text: str = FILE, **environ: str) -> Archiver:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    loaded = config.load(path, environ)
    assert loaded.warnings == ()
    return loaded.config.data_maintenance.archiver


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("ENABLED", "false", "enabled", False),
        ("ENABLED", "True", "enabled", True),
        ("KIND", "s3", "kind", "s3"),
        ("ARCHIVE_EXPIRED", "FALSE", "archive_expired", False),
        ("CONTINUOUS", "true", "continuous", True),
        ("INTERVAL", "10 s", "interval_us", 10_000_000),
        ("DISK_PATH", "/mnt/archive", "disk.path", "/mnt/archive"),
        ("S3_BUCKET", "b", "s3.bucket", "b"),
        ("S3_BUCKET", "", "s3.bucket", "of-the-file"),
        ("S3_KEY_PREFIX", "p/q", "s3.key_prefix", "p/q"),
        ("S3_REGION", "eu-central-1", "s3.region", "eu-central-1"),
        ("S3_ENDPOINT", "http://store:8333", "s3.endpoint", "http://store:8333"),
        ("S3_ADDRESSING", "Virtual", "s3.addressing", "virtual"),
        ("S3_TMP_UPLOAD_DIR", "/mnt/uploads", "s3.tmp_upload_dir", "/mnt/uploads"),
        ("S3_ACCESS_KEY_ID", "key", "s3.access_key_id", "key"),
        ("S3_KEY_ID", "key", "s3.access_key_id", "key"),
        ("S3_SECRET_ACCESS_KEY", "hidden", "s3.secret_access_key", "hidden"),
        ("S3_KEY_SECRET", "hidden", "s3.secret_access_key", "hidden"),
        ("LAYOUT", "Tree", "layout", "tree"),
    ],
)
def test_the_environment_wins(
    tmp_path: Path, variable: str, text: str, field: str, value: object
) -> None:
    found: object = read(tmp_path, **{NAME + variable: text})
    for part in field.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("variable", "text", "fix"),
    [
        ("ENABLED", "1", "write true or false"),
        ("ENABLED", "yes", "write true or false"),
        ("KIND", "tape", "write one of disk, s3"),
        ("LAYOUT", "flat", "write tree: from another layout nobody here could restore or read"),
        ("INTERVAL", "0", "write a duration above 0"),
        ("S3_ENDPOINT", "store:8333", "write an address like https://"),
        ("S3_ADDRESSING", "host", "write one of auto, path, virtual"),
    ],
)
def test_a_wrong_value_stops_the_start_and_names_its_variable(
    tmp_path: Path, variable: str, text: str, fix: str
) -> None:
    with pytest.raises(ConfigError, match=f"{NAME}{variable} = '{text}': {fix}"):
        read(tmp_path, **{NAME + variable: text})


def test_an_unknown_name_is_reported() -> None:
    (warning,) = config.load(None, {f"{NAME}S3_BUKET": "b"}).warnings
    assert warning == f"{NAME}S3_BUKET: unknown setting; did you mean {NAME}S3_BUCKET?"


@pytest.mark.parametrize(
    ("s3", "problem"),
    [
        ({}, "s3.bucket is empty"),
        ({"S3_BUCKET": "b", "S3_ACCESS_KEY_ID": "k"}, "s3.secret_access_key is empty"),
        ({"S3_BUCKET": "b", "S3_SECRET_ACCESS_KEY": "k"}, "s3.access_key_id is empty"),
    ],
)
def test_a_place_without_a_name_and_half_a_login_stop_the_start(
    s3: dict[str, str], problem: str
) -> None:
    given = {f"{NAME}{name}": value for name, value in s3.items()}
    on = {f"{NAME}ENABLED": "true", f"{NAME}KIND": "s3", **given}
    with pytest.raises(ConfigError, match=problem):
        config.load(None, on)
    config.load(None, {**on, f"{NAME}ENABLED": "false"})


def test_what_is_shown_hides_the_login(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(FILE)
    login = {f"{NAME}S3_ACCESS_KEY_ID": "AKIA", f"{NAME}S3_SECRET_ACCESS_KEY": "hunter2"}
    loaded = config.load(path, login).config
    shown = config.settings(loaded)
    assert shown["data_maintenance.archiver.s3.secret_access_key"] == "***"
    for text in (repr(loaded), config.effective(loaded), str(shown)):
        assert "hunter2" not in text
        assert "AKIA" not in text
    assert 'bucket = "of-the-file"' in config.effective(loaded)


def test_the_sample_of_the_page_is_right(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs" / "archive.md").read_text(), re.DOTALL | re.MULTILINE
    )
    found = read(tmp_path, block)
    assert (found.enabled, found.kind, found.continuous) == (True, "s3", True)
    assert found.s3.key_prefix == "broker-1"


def test_a_folder_is_in_the_data_directory_or_where_it_is_said(tmp_path: Path) -> None:
    assert read(tmp_path).folder(Path("/data")) == Path("/data/archive")
    elsewhere = read(tmp_path, IGGY_DATA_MAINTENANCE_ARCHIVER_PATH="/mnt/archive")
    assert elsewhere.folder(Path("/data")) == Path("/mnt/archive")
