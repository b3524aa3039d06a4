"""What of the product is another thing while it is simulated: costly, random, or the end of us."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from iggy_broker.archive import archiver, owner, patience, standing
from iggy_broker.metadata import credentials


@contextlib.contextmanager
def quick_passwords(seed: int) -> Iterator[None]:
    """Argon2 takes longer than a whole life of a simulated broker; it and tokens are random."""
    chance = random.Random(f"tokens-{seed}")
    names = ("hash_password", "verify", "new_token")
    real = {name: getattr(credentials, name) for name in names}
    credentials.hash_password = lambda password: f"hash of {password}"
    credentials.verify = lambda stored, password: stored == f"hash of {password}"
    credentials.new_token = lambda: f"{chance.getrandbits(400):x}"
    try:
        yield
    finally:
        for name in names:
            setattr(credentials, name, real[name])


@contextlib.contextmanager
def quick_archiver(seed: int) -> Iterator[None]:
    """A life is over long before a real archiver has looked twice, or tries again."""
    chance = random.Random(f"owner-{seed}")
    quick = {"LOOK_S": 0.05, "OWNER_LOOK_S_MIN": 0.2, "AGAIN_S_MIN": 0.02, "AGAIN_S_MAX": 0.3}
    values: dict[tuple[ModuleType, str], Any] = {
        (module, name): value
        for module in (archiver, patience, standing)
        for name, value in quick.items()
        if hasattr(module, name)
    }
    token_hex = lambda count: f"{chance.getrandbits(8 * count):0{2 * count}x}"  # noqa: E731
    values[owner, "secrets"] = SimpleNamespace(token_hex=token_hex)
    real = {key: getattr(*key) for key in values}
    for (module, name), value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), value in real.items():
            setattr(module, name, value)


@contextlib.contextmanager
def no_exit() -> Iterator[None]:
    """Nothing may end this very process: then nobody would be told why."""
    real = os._exit

    def refused(status: int) -> NoReturn:
        raise AssertionError(f"os._exit({status}) in a simulated process")

    os._exit = refused
    try:
        yield
    finally:
        os._exit = real
