"""The object store as pods see it: a Service of their namespace, in front of a process here."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import S3FileSystem

from e2e_kubectl import Document, Kubectl
from object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore

PORT = 8333  # what SeaweedFS has by itself
KEYS = "lake-keys"


class Server(Protocol):
    """A process on this machine that pods should reach."""

    host: str
    port: int


def serve(kubectl: Kubectl, store: ObjectStore, *, name: str = "s3") -> None:
    """Make `http://NAME:8333` known in a namespace, with the Secret of its keys."""
    kubectl.apply(*service(name, store), secret())


def reached() -> Document:
    """The block `s3` of a sink: files and checkpoint each have one. For `serve` with its name."""
    return {"endpoint": f"http://s3:{PORT}", "credentialsSecretName": KEYS}


def service(name: str, server: Server, *, port: int = PORT) -> list[Document]:
    """A Service without pods, and the address that it leads to."""
    front = {"name": name, "port": port, "targetPort": server.port, "protocol": "TCP"}
    there = {"name": name, "port": server.port, "protocol": "TCP"}
    label = {"kubernetes.io/service-name": name}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"ports": [front]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": label},
            "addressType": "IPv4",
            "ports": [there],
            "endpoints": [{"addresses": [server.host]}],
        },
    ]


def secret() -> Document:
    """The keys, as a sink looks for them."""
    keys = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEYS},
        "stringData": keys,
    }


def read(store: ObjectStore, path: str) -> pa.Table:
    """All rows below BUCKET/FOLDER, with the columns of its folders."""
    files = S3FileSystem(
        endpoint_override=f"{store.host}:{store.port}",
        scheme="http",
        region=REGION,
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    )
    return ds.dataset(path, filesystem=files, format="parquet", partitioning="hive").to_table()
