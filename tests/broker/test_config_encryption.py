"""Keys of encrypted data: where they come from, what is said of wrong ones, and who sees them."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from iggy_broker import config
from iggy_broker.config import ConfigError
from iggy_broker.config_data import Encryption
from iggy_broker.storage.keys import KeysError, read_keys
from iggy_wire.sealing import id_of

ONE, TWO, THREE = b"1" * 32, b"2" * 32, b"3" * 32
NAME = "IGGY_SYSTEM_ENCRYPTION_"


def text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


def read(tmp_path: Path, text: str = "", **environ: str) -> Encryption:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    loaded = config.load(path, {NAME + name: value for name, value in environ.items()})
    assert loaded.warnings == ()
    return loaded.config.system.encryption


def ids(*keys: bytes) -> tuple[str, ...]:
    return tuple(map(id_of, keys))


def test_without_settings_nothing_is_encrypted(tmp_path: Path) -> None:
    keys = read_keys(read(tmp_path))
    assert (keys.key_id, keys.ids) == ("", ())


def test_keys_out_of_variables(tmp_path: Path) -> None:
    old = f"{text_of(TWO)}, {text_of(THREE)}"
    given = {"KEY": text_of(ONE), "OLD_KEYS": old}
    keys = read_keys(read(tmp_path, **given, ENABLED="true"))
    assert (keys.key_id, keys.ids) == (id_of(ONE), ids(ONE, TWO, THREE))
    keys = read_keys(read(tmp_path, **given))
    assert (keys.key_id, keys.ids) == ("", ids(ONE, TWO, THREE)), "off: they read"


def test_keys_out_of_a_file_as_the_original_spells_them(tmp_path: Path) -> None:
    keys = f'enabled = true\nkey = "{text_of(ONE)}"\nold_keys = ["{text_of(TWO)}"]'
    for table in ("encryption", "system.encryption"):
        assert read_keys(read(tmp_path, f"[{table}]\n{keys}")).ids == ids(ONE, TWO)


def test_keys_out_of_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text_of(ONE) + "\n")
    (tmp_path / "old").write_text(f"{text_of(TWO)}\n{text_of(THREE)}")
    files = {"KEY_FILE": str(tmp_path / "key"), "OLD_KEY_FILES": f"{tmp_path / 'old'},"}
    keys = read_keys(read(tmp_path, **files, ENABLED="true"))
    assert (keys.key_id, keys.ids) == (id_of(ONE), ids(ONE, TWO, THREE))


@pytest.mark.parametrize("variable", ["KEY", "OLD_KEYS"])
@pytest.mark.parametrize("wrong", ["hunter2", base64.b64encode(b"hunter2").decode()])
def test_a_key_that_is_none_is_named_and_not_shown(
    tmp_path: Path, variable: str, wrong: str
) -> None:
    with pytest.raises(ConfigError, match=r"\*\*\*: write base64 of 32 bytes") as refused:
        read(tmp_path, **{variable: wrong})
    assert NAME + variable in str(refused.value)
    assert wrong not in str(refused.value)


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"system\.encryption\.key is empty"):
        read(tmp_path, ENABLED="true")
    with pytest.raises(ConfigError, match="both set: keep one"):
        read(tmp_path, KEY=text_of(ONE), KEY_FILE="/key")


@pytest.mark.parametrize("variable", ["KEY_FILE", "OLD_KEY_FILES"])
def test_a_file_that_has_no_keys_is_named(tmp_path: Path, variable: str) -> None:
    path = tmp_path / "key"
    settings = read(tmp_path, **{variable: str(path)})
    with pytest.raises(KeysError, match=rf"encryption\.{variable.lower()} = {path}: cannot be"):
        read_keys(settings)
    path.write_text("hunter2")
    with pytest.raises(KeysError, match=f"{path}: write base64 of 32 bytes") as refused:
        read_keys(settings)
    assert "hunter2" not in str(refused.value)
    path.write_text("")
    if variable == "KEY_FILE":
        with pytest.raises(KeysError, match="write one key"):
            read_keys(settings)


def test_no_key_is_shown(tmp_path: Path) -> None:
    environ = {
        f"{NAME}ENABLED": "true",
        f"{NAME}KEY": text_of(ONE),
        f"{NAME}OLD_KEYS": text_of(TWO),
    }
    loaded = config.load(None, environ).config
    shown = config.effective(loaded) + str(config.settings(loaded)) + repr(loaded)
    for key in (ONE, TWO):
        assert text_of(key) not in shown
    assert config.settings(loaded)["system.encryption.old_keys"] == "***"


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    settings = read(tmp_path, KEY=text_of(ONE), ENABLED="true")
    with pytest.raises(KeysError, match=r"cryptography: install it with: pip install"):
        read_keys(settings)
