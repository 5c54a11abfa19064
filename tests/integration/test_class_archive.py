"""A JVM loads classes from an archive that fits, and silently ignores every other file.

The archive of another format is long: the archive of another build takes the same way in the JVM.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.runtime.caches.class_archive import archivable, recorded_archive, sharing_options

pytestmark = pytest.mark.integration

TOOL = "kafka.tools.StorageTool"


@pytest.fixture(scope="module")
def archive(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a small program."""
    path = tmp_path_factory.mktemp("archive") / "tool.jsa"
    with recorded_archive(path) as options:
        run(project.jars / "broker", *options)
    return path


def test_classes_of_jars_in_a_path_with_a_space_come_from_the_archive(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAUD_CACHE_DIR", str(tmp_path / "cache"))
    jars = tmp_path / "my rules" / "broker"
    shutil.copytree(project.jars / "broker", jars)
    links = archivable(jars)
    with recorded_archive(tmp_path / "my rules" / "tool.jsa") as options:
        run(links, *options)
    loaded = run(archivable(jars), *sharing_options(tmp_path / "my rules" / "tool.jsa"), "-Xlog:class+load")
    assert f"{TOOL} source: shared objects file (top)" in loaded
    next(jars.glob("kafka_*.jar")).touch()
    assert archivable(jars) != links
    assert not links.exists()


@pytest.fixture
def copy(archive: Path, tmp_path: Path) -> Path:
    """A copy of the archive that a test can damage."""
    for path in archive.parent.iterdir():
        shutil.copyfile(path, tmp_path / path.name)
    return tmp_path / archive.name


def test_classes_come_from_the_archive(project: Project, archive: Path) -> None:
    loaded = run(project.jars / "broker", *sharing_options(archive), "-Xlog:class+load")
    assert f"{TOOL} source: shared objects file (top)" in loaded


def test_a_missing_or_truncated_archive_is_not_used(copy: Path) -> None:
    whole = copy.read_bytes()
    assert sharing_options(copy)
    copy.write_bytes(whole[:-1])
    assert sharing_options(copy) == ()
    copy.unlink()
    assert sharing_options(copy) == ()
    copy.write_bytes(whole)
    copy.with_name(f"{copy.name}.size").unlink()
    assert sharing_options(copy) == ()


def test_an_archive_of_another_class_path_is_ignored_silently(project: Project, archive: Path) -> None:
    assert len(run(project.jars / "broker", *sharing_options(archive), path=f"{project.config}:").split()) == 1


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(b"OpenJDK 64-Bit Server VM (", id="build"),
        pytest.param(b"", id="format", marks=pytest.mark.long),
    ],
)
def test_an_archive_of_another_java_is_ignored_silently(project: Project, copy: Path, mark: bytes) -> None:
    content = copy.read_bytes()
    place = content.index(mark, 0, 4096)
    copy.write_bytes(content[:place] + b"A" + content[place + 1 :])
    assert len(run(project.jars / "broker", *sharing_options(copy)).split()) == 1
    assert f"{TOOL} source: shared" not in run(project.jars / "broker", *sharing_options(copy), "-Xlog:class+load")


def test_an_archive_that_the_jvm_did_not_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"\.jsa"), recorded_archive(tmp_path / "none.jsa"):
        pass
    assert list(tmp_path.iterdir()) == []


def run(jars: Path, *options: str, path: str = "") -> str:
    """The output of a command that prints one word."""
    command = ["java", *options, "-cp", f"{path}{jars}/*", TOOL, "random-uuid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    return done.stdout
