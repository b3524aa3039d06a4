"""Settings of the operator program: defaults, and wrong values that name the way out."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from iggy_operator import VERSION
from iggy_operator.program.settings import (
    SETTINGS,
    SettingError,
    read_settings,
    unknown_variables,
)


def test_without_any_variable_everything_has_its_default() -> None:
    settings = read_settings({})

    assert settings.broker_image == f"iggykube/broker:{VERSION}"
    assert settings.watch_namespaces == ()
    assert settings.lease_seconds == 15
    assert settings.release.restart_on_upgrade is False


def test_the_images_are_those_of_this_version() -> None:
    assert version("iggykube") == VERSION


def test_an_empty_variable_counts_as_not_set() -> None:
    values = {setting.variable: "" for setting in SETTINGS}

    assert read_settings(values) == read_settings({})


def test_every_setting_reaches_the_program() -> None:
    settings = read_settings(
        {
            "IGGY_OPERATOR_WATCH_NAMESPACES": "shop, billing,shop",
            "IGGY_OPERATOR_IMAGE_PULL_SECRETS": "one,two",
            "IGGY_OPERATOR_RESTART_ON_UPGRADE": "true",
            "IGGY_OPERATOR_DEFAULT_BROKER": '{"storage": {"size": "1Gi"}}',
            "IGGY_OPERATOR_HTTP_PORT": "0",
        }
    )

    assert settings.watch_namespaces == ("shop", "billing")
    assert settings.release.image_pull_secrets == ("one", "two")
    assert settings.release.restart_on_upgrade is True
    assert settings.release.default_broker == {"storage": {"size": "1Gi"}}
    assert settings.http_port == 0


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("NAMESPACE", "Iggy_System", "lower-case letters"),
        ("POD_NAME", "a b", "downward API"),
        ("WATCH_NAMESPACES", "shop;billing", "with commas"),
        ("BROKER_IMAGE", "an image", "without spaces"),
        ("IMAGE_PULL_POLICY", "Sometimes", "Always, IfNotPresent, Never"),
        ("RESTART_ON_UPGRADE", "yes", "true, false"),
        ("DEFAULT_BROKER", "{", "as JSON"),
        ("DEFAULT_BROKER", "[]", "a JSON object"),
        ("DEFAULT_BROKER", '{"storage": {"size": "lots"}}', "spec.storage.size"),
        ("DEFAULT_BROKER", '{"sotrage": {}}', "storage"),
        ("HTTP_PORT", "65536", "from 0 to 65535"),
        ("LEASE_SECONDS", "2", "from 3 to 300"),
        ("WORKERS", "-1", "from 1 to 64"),
        ("WORKERS", "²", "from 1 to 64"),
        ("LOG_LEVEL", "loud", "debug, info, warning, error"),
    ],
)
def test_a_wrong_value_names_the_variable_and_what_to_write(
    name: str, value: str, fix: str
) -> None:
    variable = f"IGGY_OPERATOR_{name}"

    with pytest.raises(SettingError) as caught:
        read_settings({variable: value})

    assert variable in str(caught.value)
    assert fix in str(caught.value)


def test_what_kubernetes_says_of_a_service_called_like_us_is_no_wrong_setting() -> None:
    environment = {
        "IGGY_OPERATOR_SERVICE_HOST": "10.96.0.7",
        "IGGY_OPERATOR_SERVICE_PORT": "8080",
        "IGGY_OPERATOR_SERVICE_PORT_HTTP": "8080",
        "IGGY_OPERATOR_PORT": "tcp://10.96.0.7:8080",
        "IGGY_OPERATOR_PORT_8080_TCP": "tcp://10.96.0.7:8080",
        "IGGY_OPERATOR_PORT_8080_TCP_PROTO": "tcp",
        "IGGY_OPERATOR_WORKRES": "4",
    }

    assert read_settings(environment) == read_settings({})
    assert unknown_variables(environment) == ["IGGY_OPERATOR_WORKRES"]


def test_the_end_by_a_bug_is_one_line_of_json_too() -> None:
    code = "from iggy_operator.program import logs; logs.set_up('info'); {}['missing']"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert (told["level"], told["message"]) == ("critical", "ended by a bug")
    assert "KeyError: 'missing'" in told["trace"]


def test_the_program_ends_with_2_and_one_line_that_says_why() -> None:
    environment = {**os.environ, "IGGY_OPERATOR_WORKERS": "many"}

    done = subprocess.run(
        [sys.executable, "-m", "iggy_operator"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "IGGY_OPERATOR_WORKERS='many'" in done.stderr
    assert done.stderr.count("\n") == 1
