import base64
import json

import pytest

from desired_cases import broker_of, owner_of_broker, user_of
from golden_files import check_golden
from iggy_operator import API_VERSION
from iggy_operator.desired.metadata import Owner
from iggy_operator.desired.secrets import (
    SecretShape,
    root_secret,
    root_secret_next,
    token_secret,
    user_secret,
)

OWNER = Owner(API_VERSION, "IggyUser", "fraud", "uid-1")
VALUES = {
    "type": "iggy",
    "provider": "iggykube",
    "host": "main.messaging.svc",
    "port": "8090",
    "username": "fraud",
    "password": "p-of-tests",
    "uri": "iggy://main.messaging.svc:8090",
}


def of_root() -> SecretShape:
    return root_secret(broker_of(), owner_of_broker(broker_of()))


def test_shapes_are_those_of_the_golden_file() -> None:
    template = {"labels": {"team": "data"}, "annotations": {"note": "x"}, "name": "binding"}
    shapes = [
        of_root(),
        root_secret_next(broker_of(), owner_of_broker(broker_of())),
        user_secret(user_of(), OWNER),
        user_secret(user_of(secretTemplate=template), OWNER),
        token_secret(user_of(), "dashboard", OWNER),
    ]

    check_golden(
        "secrets",
        [
            {**shape.manifest, "keys": [*shape.keys], "optional": [*shape.optional]}
            for shape in shapes
        ],
    )


def test_values_are_filled_in() -> None:
    filled = user_secret(user_of(), OWNER).filled(VALUES)

    assert {key: base64.b64decode(value).decode() for key, value in filled["data"].items()} == (
        VALUES
    )


@pytest.mark.parametrize("values", [{}, VALUES | {"more": "1"}, {"username": "fraud"}])
def test_a_secret_has_all_keys_and_no_other(values: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="keys"):
        user_secret(user_of(), OWNER).filled(values)


def test_shapes_hold_no_value() -> None:
    for shape in (of_root(), user_secret(user_of(), OWNER), token_secret(user_of(), "abc", OWNER)):
        assert not {"data", "stringData"} & set(shape.manifest)
        assert "p-of-tests" not in json.dumps(shape.manifest)


def test_names_of_token_secrets_differ_and_fit() -> None:
    long = user_of("u" * 63, username="long")

    names = {token_secret(long, token, OWNER).name for token in ("a" * 30, "b" * 30, "abc")}

    assert len(names) == 3
    assert max(map(len, names)) <= 63
