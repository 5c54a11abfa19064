"""An object store in a process of its own, with one bucket."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions

from tests.support.ports import free_ports
from tests.support.waiting import until

BUCKET = "fraud"


@dataclass(frozen=True)
class ObjectStore:
    """A running store. `environment` has the variables with which a client finds it."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]

    def place(self, prefix: str) -> str:
        """The URI of a prefix in the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    def keys(self, prefix: str) -> list[str]:
        """The keys of all objects with a prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def client(self) -> Any:
        """A client of the store."""
        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name=self.environment["AWS_DEFAULT_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run a store. Its log is in the folder."""
    (port,) = free_ports(1)
    with (folder / "object-store.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
        )
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a key",
        "AWS_SECRET_ACCESS_KEY": "a secret",
    }
    store = ObjectStore(process, environment)
    try:
        until(lambda: _has_bucket(store), "the object store answers")
        yield store
    finally:
        process.kill()
        process.wait()


def _has_bucket(store: ObjectStore) -> bool:
    assert store.process.poll() is None, "the object store has ended"
    try:
        store.client().create_bucket(Bucket=BUCKET)
    except botocore.exceptions.EndpointConnectionError:
        return False
    return True
