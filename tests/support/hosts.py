"""Hosts that share nothing, on one machine: each is a set of namespaces with its own network card, name and files.

A bridge connects the hosts, and the test to them. All files of the machine are read-only on a host, except those of its
own folder: /tmp, a disk of its own, HOME, and var/ of the checkout. A host can lack files of the machine, such as Java.
Needs root and `ip`.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from fraud_rules.runtime.process import start_detached
from tests.support.places import ROOT
from tests.support.waiting import until

_DISK_BYTES: Final = 268_435_456
_KERNEL_CACHE: Final = Path.home() / ".cache" / "fraud-rules"

# The host's folder keeps its path, while the folders of the other hosts are hidden.
_ENTER: Final = """
name=$1 folder=$2 root=$3 code=$4 lacks=$5; shift 5
hostname "$name"
mount --rbind "$folder" /mnt
mount -t tmpfs -o size=1m none "$(dirname "$folder")"
mkdir "$folder"
mount --rbind /mnt "$folder"
umount --lazy /mnt
mount --bind "$folder/tmp" /tmp
mount --bind "$folder/var" "$root/var"
mount --bind "$folder/hosts" /etc/hosts
mount -t tmpfs none /dev/shm
umount --lazy /run/netns
if [ -n "$code" ]; then mount --bind "$code" "$root/spark_jobs"; fi
IFS=:
for each in $lacks; do
  if [ -d "$each" ]; then mount -t tmpfs -o ro,size=4k none "$each"; else mount --bind /dev/null "$each"; fi
done
mount -o remount,bind,ro /
export HOME="$folder/home" TMPDIR=/tmp
cd "$root"
exec "$@"
"""


@dataclass(frozen=True)
class Host:
    """One host. `folder` has its files, and `link` is the end of its cable at the bridge. `lacks` are the folders and
    programs of the machine that it does not have: it sees empty folders and files."""

    name: str
    address: str
    folder: Path
    lacks: tuple[Path, ...] = ()

    @property
    def namespace(self) -> str:
        return f"{self.name}-{os.getpid()}"

    @property
    def machine(self) -> str:
        """The address at which this host reaches the programs of the test."""
        return f"{self.address.rpartition('.')[0]}.1"

    @property
    def link(self) -> str:
        return f"fr{os.getpid()}-{self.address.rpartition('.')[2]}"

    def words(self, code: Path | None = None) -> tuple[str, ...]:
        """The words before a command that run it on this host. `code` replaces spark_jobs/, a folder of the host."""
        entered = ("ip", "netns", "exec", self.namespace, "unshare", "--mount", "--uts", "--propagation", "private")
        shown, lacks = "" if code is None else str(code), ":".join(map(str, self.lacks))
        return (*entered, "sh", "-euc", _ENTER, "host", self.name, str(self.folder), str(ROOT), shown, lacks)

    def start(self, name: str, *command: str, code: Path | None = None, **environ: str) -> subprocess.Popen[bytes]:
        """Start a process, with the log NAME.log in the folder."""
        known = {key: value for key, value in os.environ.items() if not key.startswith("FRAUD_")}
        return self.start_with({**known, **environ}, name, *command, code=code)

    def start_with(
        self, environment: Mapping[str, str], name: str, *command: str, code: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process with only these variables, with the log NAME.log in the folder."""
        log = self.folder / f"{name}.log"
        return start_detached([*self.words(code), *command], log, environment=environment, append=False)

    def output(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command on this host, with the variables of this process or only with these."""
        done = subprocess.run([*self.words(), *command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stdout[-2_000:]}{done.stderr[-4_000:]}"
        return done.stdout

    def writable(self) -> set[tuple[str, str]]:
        """The writable folders of disks that this host has: device, and folder on it. Without the memory disks that
        `_ENTER` creates for this host."""
        found: dict[
            str, tuple[str, str] | None
        ] = {}  # by the folder at which it is mounted: a later one hides an earlier one
        for line in self.output("cat", "/proc/self/mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            kind, options = after.split()[0], before.split()[5].split(",")
            number, inside, at = before.split()[2:5]
            found[at] = (number, inside) if "rw" in options and kind not in _OF_THE_KERNEL else None
        return {each for each in found.values() if each is not None}

    def processes(self) -> list[int]:
        """The running processes of this host."""
        return [int(each) for each in _run("ip", "netns", "pids", self.namespace).split()]

    def kill(self) -> None:
        """Kill all processes (kill -9). The network stays, so that the connections are closed."""

        def is_gone() -> bool:
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return not self.processes()

        until(is_gone, f"all processes of {self.name} are gone")

    def cut(self) -> None:
        """Pull the cable: no packet arrives, and the connections stay open."""
        _run("ip", "link", "set", self.link, "down")

    def heal(self) -> None:
        """Plug the cable in again."""
        _run("ip", "link", "set", self.link, "up")


_END: Final = """
while pids=$(ip netns pids {namespace}) && [ -n "$pids" ]; do kill -KILL $pids; sleep 0.1; done
ip link delete {link}
ip netns delete {namespace}
umount --lazy {disk}
"""
"""Ends a host. A process that has just been started may join the namespace a little later. The kernel removes a
namespace some time after its deletion, so the link would keep its name for a while."""

_OF_THE_KERNEL: Final = (
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "mqueue",
    "tmpfs",
    "cgroup",
    "cgroup2",
    "securityfs",
    "debugfs",
)
"""File systems that are no disks. Each host has memory disks of its own, at /tmp and /dev/shm."""


def assert_nothing_shared(hosts: Sequence[Host]) -> None:
    """Fail if two hosts can write to the same folder of a disk, or one to the checkout."""
    for host in hosts:
        for other in hosts:
            assert host is other or not host.writable() & other.writable(), host.writable() & other.writable()
        assert host.output("sh", "-c", f"touch {ROOT}/shared 2>&1 || true").strip().endswith("Read-only file system")


_BLOCK: Final = bytes(1 << 16)


@contextmanager
def fill(disk: Path) -> Iterator[None]:
    """Leave no space on a disk within the block. Other programs may write to it meanwhile."""
    file = disk / "filled"
    with file.open("wb", buffering=0) as full:
        try:
            while full.write(_BLOCK):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    try:
        yield
    finally:
        file.unlink()


class _CleanUp:
    """A shell that runs commands at the end of the block, or after the end of this process, however it ends."""

    def __enter__(self) -> Self:
        self._shell = subprocess.Popen(["sh", "-c", 'eval "$(cat)"'], stdin=subprocess.PIPE, start_new_session=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._commands.close()
        self._shell.wait()

    def later(self, command: str) -> None:
        """Run a command at the end, after the earlier ones."""
        self._commands.write(f"{command}\n".encode())
        self._commands.flush()

    @property
    def _commands(self) -> IO[bytes]:
        assert self._shell.stdin is not None
        return self._shell.stdin


@contextmanager
def hosts_on_a_bridge(*names: str) -> Iterator[tuple[Host, ...]]:
    """Hosts with these names, which end with the block. Each has the compiled kernel, as after an installation."""
    folder, bridge = Path(tempfile.mkdtemp(prefix="hosts-", dir="/var/tmp")), f"fr{os.getpid()}"
    net = f"10.{os.getpid() % 200 + 20}.7"
    hosts = tuple(Host(name, f"{net}.{n + 2}", folder / name) for n, name in enumerate(names))
    (ROOT / "var").mkdir(exist_ok=True)
    with _CleanUp() as clean_up:
        for host in hosts:
            clean_up.later(_END.format(namespace=host.namespace, link=host.link, disk=host.folder / "tmp"))
        clean_up.later(f"ip link delete {bridge}; rm -rf --one-file-system {folder}")
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{net}.1/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for host in hosts:
            _add(host, bridge, hosts)
        yield hosts


def _add(host: Host, bridge: str, hosts: tuple[Host, ...]) -> None:
    for part in ("tmp", "home", "var"):
        (host.folder / part).mkdir(parents=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none", str(host.folder / "tmp"))
    names = "".join(f"{each.address} {each.name}\n" for each in hosts)
    (host.folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="ascii")
    if _KERNEL_CACHE.is_dir():
        shutil.copytree(_KERNEL_CACHE, host.folder / "home" / ".cache" / "fraud-rules")
    inside = ("ip", "-n", host.namespace)
    _run("ip", "netns", "add", host.namespace)
    _run("ip", "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    _run("ip", "link", "set", host.link, "master", bridge, "up")
    _run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    _run(*inside, "link", "set", "eth0", "up")
    _run(*inside, "link", "set", "lo", "up")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
