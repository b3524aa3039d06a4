"""Password hashes: argon2id with our cost, salted, and never an exception for a wrong one."""

from __future__ import annotations

from iggy_broker.metadata import credentials


def test_a_password_fits_its_own_hash_only() -> None:
    stored = credentials.hash_password("correct horse")

    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert credentials.verify(stored, "correct horse")
    assert not credentials.verify(stored, "correct horsf")
    assert not credentials.verify(stored, "")


def test_the_same_password_has_another_hash_each_time() -> None:
    assert credentials.hash_password("iggy") != credentials.hash_password("iggy")


def test_nobody_costs_as_much_and_fits_nothing() -> None:
    costs = credentials.hash_password("x").split("$")[:4]

    assert credentials.NOBODY.split("$")[:4] == costs
    assert not credentials.verify(credentials.NOBODY, "")
    assert not credentials.verify(credentials.NOBODY, "iggy")


def test_a_stored_text_that_is_no_hash_fits_nothing() -> None:
    assert not credentials.verify("", "iggy")
    assert not credentials.verify("iggy", "iggy")


def test_random_passwords_differ_and_may_be_typed() -> None:
    made = {credentials.random_password() for _ in range(100)}

    assert len(made) == 100
    assert all(len(password) == 32 and password.isascii() for password in made)
