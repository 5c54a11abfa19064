"""A real schema registry in a process of its own: Apicurio, from Maven, with Confluent's API.

The archive of 109 MB is fetched once for each user and kept with the other caches. Where it cannot be fetched, the
tests that need it are skipped by name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import httpx
import pyspark
import pytest

from fraud_rules.runtime.caches.folder import cache_folder
from fraud_rules.runtime.file_lock import locked
from tests.support.ports import free_ports
from tests.support.waiting import until

VERSION = "3.0.9"
SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
FETCH_LIMIT_S = 240
"""Less than the limit of a test."""

_MODULE = f"""
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="fraud-rules" module="registry"/>
  <configurations><conf name="registry" transitive="false"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="registry->default">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""The module's parent is not in Maven's repository, so Ivy must not read the description of the module."""


@dataclass
class SchemaRegistry:
    """A registry that can be killed and started again. Its schemas are in a file, so they outlast a kill."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        """The address of Confluent's API."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start the registry, and wait until it answers."""
        home = _installed()
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.port,
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder / 'registry'}",
        }
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        with (self.folder / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(java), "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    *(f"-D{name}={value}" for name, value in options.items()),
                    "-cp", f"lib/*:apicurio-registry-app-{VERSION}-runner.jar", "io.quarkus.runner.GeneratedMain",
                ],
                cwd=home, stdout=log, stderr=log,
            )  # fmt: skip
        until(self._answers, "the schema registry answers")

    def kill(self) -> None:
        """Kill the registry, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the registry has ended: see {self.folder / 'registry.log'}"
        try:
            return httpx.get(f"{self.url}/subjects", timeout=5).is_success
        except httpx.TransportError:
            return False


@contextmanager
def schema_registry(folder: Path) -> Iterator[SchemaRegistry]:
    """Run a registry. Its schemas and its log are in the folder. Skips the test if it cannot be fetched."""
    (port,) = free_ports(1)
    registry = SchemaRegistry(folder, port)
    try:
        registry.start()
        yield registry
    finally:
        registry.kill()


@cache
def _installed() -> Path:
    """The folder of the unpacked registry."""
    root = cache_folder(f"apicurio-registry-{VERSION}")
    home = root / "unpacked"
    with locked(root / "lock", FETCH_LIMIT_S, lambda holder: TimeoutError(f"{holder} fetches the registry")):
        if not home.is_dir():
            _unpack(_fetch(root), home)
    return home


def _fetch(root: Path) -> Path:
    (root / "ivy.xml").write_text(_MODULE, encoding="utf-8")
    (root / "ivysettings.xml").write_text(_SETTINGS, encoding="utf-8")
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    fetched = root / "fetched"
    command = ["java", "-jar", str(ivy), "-warn", "-settings", "ivysettings.xml", "-cache", "ivy", "-ivy", "ivy.xml"]
    try:
        done = subprocess.run(
            [*command, "-retrieve", f"{fetched}/[artifact].[ext]"],
            cwd=root, capture_output=True, timeout=FETCH_LIMIT_S, check=False,
        )  # fmt: skip
        fault = "" if done.returncode == 0 else done.stdout.decode(errors="replace")[-500:]
    except subprocess.TimeoutExpired:
        fault = f"not within {FETCH_LIMIT_S} s"
    archive = fetched / "apicurio-registry-app.tar.gz"
    if fault or not archive.is_file():
        pytest.skip(f"Apicurio Registry {VERSION} cannot be fetched from Maven: {fault}")
    return archive


def _unpack(archive: Path, home: Path) -> None:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert digest == SHA256, f"{archive} differs from the pinned one: {digest}"
    partial = home.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as content:
        content.extractall(partial, filter="data")
    partial.rename(home)
    archive.unlink()
    shutil.rmtree(home.parent / "ivy", ignore_errors=True)
