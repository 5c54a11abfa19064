"""Machine and versions of a measurement."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import psutil

from fraud_rules.configuration.project import Project

_WRITTEN = ("bench/results", "docs/benchmarks.md")
_PACKAGES = ("pyspark", "numba", "numpy", "pyarrow", "msgspec", "confluent-kafka")


def describe(project: Project) -> dict[str, str]:
    """Machine and versions, by name."""
    facts = {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
        "Kafka": _jar_version(project.jars / "broker", "kafka_"),
        "revision": _revision(project),
    }
    return facts | {name: importlib.metadata.version(name) for name in _PACKAGES}


def load_average() -> float:
    """The load average of the last minute. More than the number of cores means that other programs are busy."""
    return os.getloadavg()[0]


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1].strip() if found else platform.machine()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return "none"
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', answer)
    return found[1] if found else "unknown"


def _jar_version(folder: Path, prefix: str) -> str:
    names = sorted(path.stem for path in folder.glob(f"{prefix}*.jar"))
    return names[0].rsplit("-", 1)[-1] if names else "none"


def _revision(project: Project) -> str:
    """The commit, marked if the work tree differs from it in other files than the benchmark's own results."""
    commit = _git(project, "rev-parse", "--short=10", "HEAD")
    if not commit:
        return "unknown"
    changed = _git(project, "status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in _WRITTEN))
    return f"{commit}-dirty" if changed else commit


def _git(project: Project, *arguments: str) -> str:
    """The output of git, empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
