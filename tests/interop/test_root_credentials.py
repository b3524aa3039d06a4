"""The root user's name and password at start: half set, too short, too long, changed later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker, wait_for_exit
from iggy_client import Client, ClientError

NAME, WORD = "IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which a broker has run before."""
    folder = tmp_path_factory.mktemp("existing")
    with running_broker(folder, shards=1):
        pass
    yield folder


@pytest.mark.parametrize("is_new", [True, False], ids=["empty folder", "existing data"])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({NAME: "somebody", WORD: ""}, f"{WORD} is not set although its partner is"),
        ({NAME: "", WORD: "some-password"}, f"{NAME} is not set although its partner is"),
        ({WORD: "ab"}, f"{WORD}: write 3 to 100 bytes"),
        ({WORD: "x" * 101}, f"{WORD}: write 3 to 100 bytes"),
        ({NAME: "ab"}, f"{NAME} = 'ab': write 3 to 50 bytes"),
    ],
    ids=["name alone", "password alone", "2 bytes", "101 bytes", "short name"],
)
def test_half_and_odd_credentials_end_the_start_with_one_line(
    tmp_path: Path, existing: Path, settings: dict[str, str], told: str, is_new: bool
) -> None:
    broker = BrokerProcess(tmp_path if is_new else existing, shards=1, settings=settings)
    broker.log = tmp_path / "refused.log"

    assert wait_for_exit(broker.launch()) == 2

    (line,) = broker.text().strip().splitlines()
    assert told in line
    assert settings.get(WORD, "") in ("", "ab") or settings[WORD] not in line


@pytest.mark.parametrize(
    ("name", "word"), [(USERNAME, "changed-later"), ("boss", PASSWORD), ("boss", "changed-later")]
)
def test_changed_credentials_lock_nobody_out_and_are_spoken_of(
    tmp_path: Path, existing: Path, name: str, word: str
) -> None:
    broker = BrokerProcess(existing, shards=1, settings={NAME: name, WORD: word})
    broker.log = tmp_path / "changed.log"
    try:
        broker.start()
        with broker.client() as client:  # as on the first start
            client.get_streams()
        with pytest.raises(ClientError, match="INVALID_CREDENTIALS"):
            Client.connect(broker.address, name, word)
        assert broker.stop() == 0
    finally:
        broker.end()

    (warning,) = (one for one in broker.records() if one["level"] == "warning")
    assert f"{NAME} and {WORD} are not those of root" in str(warning["message"])
    assert word not in broker.text() and PASSWORD not in broker.text()


def test_the_same_credentials_are_not_spoken_of(tmp_path: Path, existing: Path) -> None:
    broker = BrokerProcess(existing, shards=1)
    broker.log = tmp_path / "same.log"
    try:
        broker.start()
        broker.client().close()
        assert broker.stop() == 0
    finally:
        broker.end()
    assert not [one for one in broker.records() if one["level"] == "warning"]
