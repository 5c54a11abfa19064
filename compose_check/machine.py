"""The folder, settings and environment of a check's containers, apart from all other containers of this machine."""

from __future__ import annotations

import json
import os
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from compose_check.errors import CheckFailed

_PROGRAMS = {
    "podman": "podman",
    "runc": "runc",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
    "iptables": "iptables",
    "catatonit": "catatonit",
    "newuidmap": "uidmap",
    "debootstrap": "debootstrap",
}
"""The Debian package of each program that the check needs."""

_LARGEST_PID = Path("/proc/sys/kernel/pid_max")
_MOST_FILES = 65_536

_FOLDERS = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/sbin", "/sbin")
"""The folders, besides those in PATH, where Debian installs these programs."""


def require_programs(where: str | None = None) -> None:
    """Raise CheckFailed with the command that installs the missing programs. `where` replaces the searched folders."""
    searched = os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS)) if where is None else where
    missing = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=searched) is None]
    if missing:
        command = f"apt-get update && apt-get install -y --no-install-recommends {' '.join(missing)}"
        raise CheckFailed(f"programs are missing; run this once as root:  {command}")
    if os.geteuid() != 0:
        raise CheckFailed("the check runs containers with a bridge network, which needs root")


@dataclass(frozen=True, slots=True)
class ContainerSite:
    """The place of a check's images, containers, volumes and networks. `run` is short, because it holds sockets."""

    home: Path
    run: Path

    @property
    def log(self) -> Path:
        """The output of the long commands. It stays after the check."""
        return self.home.with_name(f"{self.home.name}.log")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of podman and podman-compose."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("CONTAINERS_", "FRAUD_"))
        }
        return inherited | {
            "CONTAINERS_CONF": str(self.home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.home / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.home / "registries.conf"),
            # Health checks run on the check's request, because podman would need systemd for its own timers.
            "DISABLE_HC_SYSTEMD": "true",
            "TMPDIR": str(self.home / "tmp"),
        }

    def prepare(self) -> None:
        """Write the configuration files."""
        for folder in (self.home, self.home / "tmp", self.home / "networks", self.run):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("containers.conf", self._containers_conf()),
            ("storage.conf", self._storage_conf()),
            # No registry: each image must exist here.
            ("registries.conf", 'unqualified-search-registries = ["localhost"]\nshort-name-mode = "disabled"\n'),
        ):
            (self.home / name).write_text(text, encoding="utf-8")

    def remove(self) -> None:
        """Remove the folders. All containers must have ended."""
        for folder in (self.home, self.run):
            shutil.rmtree(folder, ignore_errors=True)
        if self.home.exists() or self.run.exists():
            raise CheckFailed(f"{self.home} or {self.run} cannot be removed: does a container still run?")

    def _containers_conf(self) -> str:
        # podman's own defaults exceed the limits of a process without CAP_SYS_RESOURCE. podman lowers its own number of
        # processes to the kernel's largest process id.
        most_processes = int(_LARGEST_PID.read_text(encoding="ascii"))
        limits = [
            _limit("nofile", resource.RLIMIT_NOFILE, _MOST_FILES),
            _limit("nproc", resource.RLIMIT_NPROC, most_processes),
        ]
        return (
            f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n"
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{self.home / "networks"}"\n'
        )

    def _storage_conf(self) -> str:
        return f'[storage]\ndriver = "overlay"\ngraphroot = "{self.home / "storage"}"\nrunroot = "{self.run}"\n'


def _limit(name: str, which: int, most: int) -> str:
    hard = resource.getrlimit(which)[1]
    value = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return f"{name}={value}:{value}"
