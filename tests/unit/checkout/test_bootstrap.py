"""bin/bootstrap: it returns at once if all is set up, and fails with one clear line."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from tests.support.ports import free_ports

# Debian's Python: no ensurepip, no pip. It runs as this test's Python, but can report another version.
DEBIAN_PYTHON = f"""#!/bin/sh
case "$*" in
*ensurepip*|*pip*) exit 1 ;;
-c*) exec {sys.executable} -c "import sys; sys.version_info = ${{FAKE_PYTHON:-sys.version_info}}; $2" ;;
--version) echo "Python ${{FAKE_PYTHON:-}}" ;;
*) exec {sys.executable} "$@" ;;
esac
"""
VENV = f"python3.{sys.version_info.minor}-venv"


def bootstrap(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [root / "bin" / "bootstrap", *options],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def fresh(project: Project, tmp_path: Path) -> Path:
    """The files of a fresh clone that bootstrap reads, before any setup."""
    files = ("bin/bootstrap", "bin/uv.txt", "config/ivy.xml", "config/jars.sha256", "pyproject.toml", "uv.lock")
    members = (str(file.relative_to(project.root)) for file in (project.root / "plugins").glob("*/pyproject.toml"))
    for name in (*files, *members):
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project.root / name, target)
    return tmp_path / "clone"


def test_an_unknown_option_is_refused(project: Project) -> None:
    done = bootstrap(project.root, "--nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bootstrap: unknown option --nonsense")


@pytest.fixture
def debian(tmp_path: Path) -> str:
    """A PATH with Debian's Python and apt-get, for a user who is not root."""
    script(tmp_path / "bin" / "python3", DEBIAN_PYTHON)
    for other in ("python3.11", "python3.12", "python3.13"):
        script(tmp_path / "bin" / other, "#!/bin/sh\nexit 1\n")
    script(tmp_path / "bin" / "id", "#!/bin/sh\necho 1000\n")
    script(tmp_path / "bin" / "apt-get", "#!/bin/sh\nexit 1\n")
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_without_root_it_prints_the_one_command(fresh: Path, debian: str, minor: int) -> None:
    done = bootstrap(fresh, PATH=debian, FAKE_PYTHON=f"(3, {minor}, 1)")
    assert done.returncode == 21
    (command,) = (line for line in done.stderr.splitlines() if "apt-get install" in line)
    assert f"python3.{minor}-venv" in command
    assert not (fresh / ".venv").exists()


def test_the_wheels_need_no_java(fresh: Path, debian: str) -> None:
    done = bootstrap(fresh, "--uv", PATH=debian)
    assert done.returncode == 21
    assert done.stderr.endswith(f"apt-get install -y --no-install-recommends {VENV}'\n")


def test_uv_alone_is_brought_once(fresh: Path, debian: str) -> None:
    script(fresh / ".tools" / "uv" / "bin" / "uv", "#!/bin/sh\n")
    shutil.copy(fresh / "bin" / "uv.txt", fresh / ".tools" / "uv" / "uv.txt")
    done = bootstrap(fresh, "--uv", PATH=debian)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (fresh / ".venv").exists()


@pytest.mark.parametrize("minor", [10, 14])
def test_another_python_is_refused_with_its_version_and_a_command(fresh: Path, debian: str, minor: int) -> None:
    own = fresh / "bin" / "bootstrap"
    own.write_text(own.read_text(encoding="utf-8").replace(" /usr/bin/python3;", ";"), encoding="utf-8")
    done = bootstrap(fresh, PATH=debian, FAKE_PYTHON=f"(3, {minor}, 1)")
    assert done.returncode == 20
    assert done.stderr == (
        f"bootstrap: no Python 3.11, 3.12 or 3.13 on the PATH (Python (3, {minor}, 1)): install one "
        "(on Debian 12 and 13, and Ubuntu 24.04: apt-get install python3)\n"
    )


@pytest.fixture
def without_chromium(tmp_path: Path) -> Path:
    """A PATH of what this system has but for Chromium, a Python with pip (so that setting up ends early), and `id`."""
    found = tmp_path / "bin"
    script(found / "python3", DEBIAN_PYTHON)
    script(found / "apt-get", f'#!/bin/sh\n[ "$1" = update ] || {{ echo "$@" >>{tmp_path / "asked"}; exit 1; }}\n')
    for tool in (tool for folder in ("/bin", "/usr/bin") for tool in Path(folder).iterdir()):
        if tool.name not in ("chromium", "id") and not (found / tool.name).exists():
            (found / tool.name).symlink_to(tool)
    return found


def test_a_browser_is_brought_by_apt_and_can_be_missing(fresh: Path, tmp_path: Path, without_chromium: Path) -> None:
    script(without_chromium / "id", "#!/bin/sh\necho 0\n")
    done = bootstrap(fresh, "--browser", PATH=str(without_chromium))
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert done.returncode == 22, "a package that is needed did not come"
    assert "the tests of the pages in a browser are skipped" in done.stderr
    assert [line.rsplit(maxsplit=1)[-1] for line in asked.splitlines()] == ["chromium", VENV]


def test_without_root_the_command_for_a_browser_is_printed(fresh: Path, without_chromium: Path) -> None:
    script(without_chromium / "id", "#!/bin/sh\necho 1000\n")
    done = bootstrap(fresh, "--browser", PATH=str(without_chromium))
    browser, needed = (line for line in done.stderr.splitlines() if "apt-get install" in line)
    assert browser.endswith("--no-install-recommends libatomic1 chromium'")
    assert "chromium" not in needed


@pytest.fixture
def set_up(fresh: Path, tmp_path: Path) -> Path:
    """A clone that is set up. Its Python writes its arguments to the file `calls` and then runs the script `then`."""
    script(tmp_path / "then", "#!/bin/sh\n")
    script(fresh / ".venv" / "bin" / "fraud", "#!/bin/sh\n")
    script(fresh / ".venv" / "bin" / "python", f'#!/bin/sh\necho "$@" >>{tmp_path / "calls"}\n. {tmp_path / "then"}\n')
    (fresh / "lib" / "broker").mkdir(parents=True)
    projects = "pyproject.toml plugins/*/pyproject.toml"
    of = f"cat {projects} uv.lock config/ivy.xml config/jars.sha256 bin/uv.txt bin/bootstrap"
    stamp = subprocess.run(f"{{ {of} && pwd; }} | sha256sum", shell=True, cwd=fresh, capture_output=True, check=True)
    (fresh / ".cache").mkdir()
    (fresh / ".cache" / "ready").write_bytes(stamp.stdout)
    return fresh


def calls(tmp_path: Path, module: str) -> int:
    """How often bootstrap has run a module, see `set_up`."""
    return (tmp_path / "calls").read_text().splitlines().count(f"-m {module}")


def test_the_kernel_is_compiled_once_for_each_version_of_it(set_up: Path, tmp_path: Path) -> None:
    source = set_up / "spark_jobs" / "fraud_rules" / "engine" / "window" / "kernel.py"
    script(source, "first")
    for content in ("first", "first", "second"):
        source.write_text(content)
        assert bootstrap(set_up).returncode == 0
    assert calls(tmp_path, "fraud_rules.replay.kernel_cache") == 2


def test_classes_are_recorded_again_after_a_change_of_jars_or_archive(set_up: Path, tmp_path: Path) -> None:
    archive, jar = set_up / "lib" / "spark.jsa", set_up / "lib" / "broker" / "spark.jar"
    script(jar, "first")
    script(tmp_path / "then", f'#!/bin/sh\n[ -e "{archive}" ] || echo archive >{archive}\n')
    recordings = []
    for change in (None, None, jar, archive):
        if change is not None:
            change.write_text("another size")
        assert bootstrap(set_up, "--no-class-archive").returncode == bootstrap(set_up).returncode == 0
        recordings.append(calls(tmp_path, "fraud_rules.spark.record_classes"))
    assert recordings == [1, 1, 2, 3]


def test_a_further_link_to_a_jar_does_not_record_the_classes_again(set_up: Path, tmp_path: Path) -> None:
    """uv links the jars of all checkouts to one cache."""
    jar = set_up / ".venv" / "lib" / "python3.12" / "site-packages" / "pyspark" / "jars" / "spark.jar"
    script(jar, "content")
    for link in ("none", "first", "second"):
        assert bootstrap(set_up).returncode == 0
        (tmp_path / link).hardlink_to(jar)
    assert calls(tmp_path, "fraud_rules.spark.record_classes") == 1
    jar.write_text("other content")
    assert bootstrap(set_up).returncode == 0
    assert calls(tmp_path, "fraud_rules.spark.record_classes") == 2


def test_an_environment_whose_python_is_gone_is_set_up_again(set_up: Path, debian: str) -> None:
    assert bootstrap(set_up, PATH=debian).returncode == 0
    (set_up / ".venv" / "bin" / "python").unlink()
    (set_up / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")
    assert "bootstrap: setting up" in bootstrap(set_up, PATH=debian).stderr


def test_classes_that_cannot_be_recorded_are_reported_once(set_up: Path, tmp_path: Path) -> None:
    script(tmp_path / "then", "#!/bin/sh\nexit 1\n")
    first, second = bootstrap(set_up), bootstrap(set_up)
    assert (first.returncode, second.returncode) == (0, 0)
    reports = [done.stderr.count("a class archive could not be recorded") for done in (first, second)]
    assert reports == [1, 0]


def test_a_used_port_is_reported_before_any_download(fresh: Path) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        done = bootstrap(fresh, "--ports", FRAUD_BROKER_PORT=str(port))
    assert done.returncode == 24
    assert done.stderr.splitlines() == [
        f"bootstrap: port {port} is in use: choose another with FRAUD_BROKER_PORT (and FRAUD_BROKER_CONTROLLER_PORT)"
    ]


def test_the_scripts_are_clean(project: Project) -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    scripts = ["bin/bootstrap", "bin/ui", ".ci/run"]
    done = subprocess.run([shellcheck, *scripts], cwd=project.root, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()
