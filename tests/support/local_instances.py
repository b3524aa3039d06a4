"""Local instances as tests begin them: of one file, on free ports, with the fake job if wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from iggy_client.client import Client
from iggy_operator.resources import Resources
from iggykube.local import LocalInstance, Ports, load_resources

FREE = Ports(0, 0)
FAKE_JOB = Path(__file__).parent / "fake_job"


def resources_of(folder: Path, text: str) -> Resources:
    """What `text` asks for, as the only file of the instance in `folder`."""
    file = folder / "shop.yaml"
    file.write_text(text)
    return load_resources(folder / "data", [file])


def local_instance(folder: Path, text: str, ports: Ports = FREE) -> LocalInstance:
    """An instance that is not started yet, made from `text`; its data lies in `folder`/data."""
    return LocalInstance(folder / "data", resources_of(folder, text), ports=ports)


def use_fake_job(patch: pytest.MonkeyPatch) -> None:
    """From now on, sinks of instances run the fake job in place of Spark."""
    patch.setenv("PYTHONPATH", str(FAKE_JOB))


def client_of(instance: LocalInstance) -> Client:
    """A client of the broker of an instance that was started."""
    return Client.connect(instance.address, instance.username, instance.password)
