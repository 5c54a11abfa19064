"""A bare Debian in a folder of this machine, with a clone of this checkout.

The system has only the packages that README.md requires. It shares the network with this machine. Every command runs
in its own namespaces of mounts and processes. So its mounts and its processes disappear when the command ends, also
after a failure or a kill.

The system reaches package registries as this machine does: it gets the settings of apt, pip, uv and npm, and the
trusted certificates.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["BareDebian", "bare_debian", "missing_for_a_bare_debian"]

_REQUIRED: Final = "git,make,python3,ca-certificates"
"""The packages that README.md requires, and the certificates without which no registry can be reached."""

_FILES: Final = (
    "etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/uv", "etc/apt/auth.conf", "etc/apt/auth.conf.d",
    "usr/local/share/ca-certificates", "root/.config/pip", "root/.config/uv", "root/.pip", "root/.npmrc", "root/.netrc",
)  # fmt: skip
_VARIABLES: Final = re.compile(
    r"(PIP|UV|NPM_CONFIG)_.*|.*_PROXY|(.*_)?(SSL_)?CERT(_FILE|_DIR)?|.*_CA_(BUNDLE|CERTS|INFO)|GIT_SSL_.*",
    re.IGNORECASE,
)
_MOUNTED: Final = (
    'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && cd "$1" && shift 1 && exec chroot . "$@"'
)
_BASE_S: Final = 1_800.0


@dataclass(frozen=True, slots=True)
class BareDebian:
    """The root folder of the system, which has a clone of the checkout in /root/fraud."""

    root: Path

    def run(self, command: str, log: Path, timeout_s: float, variables: Mapping[str, str] | None = None) -> int:
        """Run a shell command in the clone, as root without input, and return its exit code. `log` gets its output."""
        inside = f"cd ~/fraud && {command}"
        environment = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        environment |= {"LANG": "C.UTF-8", "TERM": "dumb", **_settings_of_registries(), **(variables or {})}
        with log.open("ab") as output:
            return subprocess.run(
                [*_NAMESPACES, "sh", "-c", _MOUNTED, "sh", self.root, "/bin/sh", "-c", inside],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                check=False,
            ).returncode


_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")


def missing_for_a_bare_debian() -> str:
    """The reason why this machine cannot make a bare Debian; empty if it can."""
    if os.geteuid() != 0:
        return "only root can use chroot"
    missing = [program for program in ("debootstrap", "unshare", "chroot") if shutil.which(program) is None]
    return f"missing programs: {', '.join(missing)}" if missing else ""


@contextmanager
def bare_debian(suite: str, checkout: Path, log: Path) -> Iterator[BareDebian]:
    """Make a bare Debian of this suite in a temporary folder of FRAUD_CHROOTS, and delete it at the end.

    The clone has the commit of the checkout, without changes that are not committed.
    """
    with TemporaryDirectory(prefix=f"{suite}-", dir=os.environ.get("FRAUD_CHROOTS")) as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", f"--include={_REQUIRED}", suite, str(root), *_mirror()]
        _run(command, log)
        for source in (Path("/", name) for name in _FILES):
            _copy(source, root)
        for settings in Path("/etc/apt/apt.conf.d").glob("*"):
            if re.search(r"^\s*Acquire::", settings.read_text(encoding="utf-8"), re.MULTILINE):
                _copy(settings, root)
        _run(["git", "clone", "--quiet", "--no-hardlinks", str(checkout), str(root / "root" / "fraud")], log)
        debian = BareDebian(root)
        assert debian.run("update-ca-certificates", log, _BASE_S) == 0, log.read_text(encoding="utf-8")[-2_000:]
        yield debian


def _run(command: list[str], log: Path) -> None:
    with log.open("ab") as output:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_BASE_S, check=True)


def _copy(source: Path, root: Path) -> None:
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        shutil.copyfile(source, target)


def _settings_of_registries() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}


def _mirror() -> list[str]:
    """The mirror that this machine's apt uses for Debian; empty for the default of debootstrap."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)"], capture_output=True, text=True, check=False
    )
    found = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith("Debian ")]
    return [next(uri for uri in found if "security" not in uri)] if found else []
