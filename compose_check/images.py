"""The images of a check: stand-ins for the base images under their own names, and the project's image."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

from compose_check.composefile import ComposeFile
from compose_check.podman import Compose, Podman
from fraud_rules.configuration.project import Project

__all__ = ["Images"]

_HERE = Path(__file__).parent / "base_images"
_DEBIAN = "debian-base"
_SUITE = "bookworm"
_LOCAL_TRUST = Path("/usr/local/share/ca-certificates")
_TRUST = "/etc/ssl/certs/ca-certificates.crt"
_BASE_S = 3_600.0
_BUILD_S = 5_400.0


@dataclass(frozen=True, slots=True)
class Images:
    """Builds what is missing. `folder` holds the files of a build."""

    podman: Podman
    project: Project
    folder: Path

    def build(self, compose: Compose, file: ComposeFile) -> None:
        """Build all images of a Compose file. Raises CheckFailed."""
        names = file.base_images
        self._debian()
        self._stand_in("python", names["FRAUD_PYTHON_IMAGE"])
        self._stand_in("postgres", names["FRAUD_POSTGRES_IMAGE"])
        self._kafka(names["FRAUD_KAFKA_IMAGE"])
        first = next(each.name for each in file.services if each.builds)
        # One service is enough, because all of them share the image.
        compose.run(
            "--podman-build-args=--network=host", "build", first, what="the project's image", timeout_s=_BUILD_S
        )

    def _debian(self) -> None:
        if self.podman.has_image(_DEBIAN):
            return
        root, archive = self.folder / "debian", self.folder / "debian.tar"
        shutil.rmtree(root, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", _SUITE, str(root)]
        self.podman.run_long(command, self.folder, "Debian's base system", _BASE_S)
        self._trust_as_this_machine(root)
        with tarfile.open(archive, "w") as made:
            made.add(root, arcname=".")
        settings = (f"ENV {name}={_TRUST}" for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"))
        changes = [part for each in settings for part in ("--change", each)]
        self.podman.run_long(
            ["podman", "import", *changes, str(archive), _DEBIAN], self.folder, "import of the base system", _BASE_S
        )
        archive.unlink()
        shutil.rmtree(root)

    def _trust_as_this_machine(self, root: Path) -> None:
        """Builds download packages, so they trust the certificate authorities that this machine trusts."""
        if _LOCAL_TRUST.is_dir():
            shutil.copytree(_LOCAL_TRUST, root / _LOCAL_TRUST.relative_to("/"), dirs_exist_ok=True)
        self.podman.run_long(
            ["chroot", str(root), "env", "TMPDIR=/tmp", "update-ca-certificates"], self.folder, "certificates", _BASE_S
        )

    def _kafka(self, name: str) -> None:
        """The broker's jars of lib/, and the command-line tools of the same version, which lib/ does not have."""
        if self.podman.has_image(name):
            return
        jars = self.folder / "kafka-jars"
        shutil.copytree(self.project.jars / "broker", jars, dirs_exist_ok=True)
        (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
        command = ["java", "-jar", str(ivy), "-warn", "-cache", str(self.folder / "ivy"), "-types", "jar"]
        command += ["-dependency", "org.apache.kafka", "kafka-tools", name.rpartition(":")[2]]
        command += ["-retrieve", f"{jars}/[artifact]-[revision].[ext]"]
        self.podman.run_long(command, self.folder, "Kafka's command-line tools", _BASE_S)
        self._stand_in("kafka", name, "--volume", f"{jars}:/jars:ro")

    def _stand_in(self, kind: str, name: str, *options: str) -> None:
        if self.podman.has_image(name):
            return
        command = ["podman", "build", "--network=host", "--pull-never", *options, "--tag", name, str(_HERE / kind)]
        self.podman.run_long(command, self.folder, f"a stand-in for {name}", _BUILD_S)
