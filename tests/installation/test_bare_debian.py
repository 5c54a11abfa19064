"""The commands of README.md run to their end on a bare Debian: `pytest -m long tests/installation/test_bare_debian.py`.

This needs root, debootstrap and the network; `FRAUD_CHROOTS` names the folder for the systems (3 GB each). `make demo`
takes some minutes on each system, `make test` takes most of an hour on 2 cores; `-k demo` selects the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from tests.support.bare_debian import BareDebian, bare_debian, missing_for_a_bare_debian
from tests.support.processes.supervised import demo_ports

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(4 * 3_600)]

_DEMO_S, _TEST_S = 3_600.0, 3 * 3_600.0


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(
    request: pytest.FixtureRequest, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BareDebian]:
    if reason := missing_for_a_bare_debian():
        pytest.skip(reason)
    with bare_debian(request.param, project.root, tmp_path_factory.mktemp("debian") / "base.log") as debian:
        yield debian


def command_of_readme(project: Project, start: str) -> str:
    """The command of README.md, section "Try it", that starts with this text."""
    text = (project.root / "README.md").read_text(encoding="utf-8").split("## Try it")[1]
    found = re.search(rf"^({re.escape(start)}.*?) +#", text, re.MULTILINE)
    assert found is not None
    return found[1]


def test_make_demo_finds_its_planted_frauds(debian: BareDebian, project: Project, tmp_path: Path) -> None:
    names = ("FRAUD_BROKER_PORT", "FRAUD_BROKER_CONTROLLER_PORT", "FRAUD_AIRFLOW_PORT")
    ports = dict(zip(names, map(str, demo_ports()), strict=True))
    run(debian, f"{command_of_readme(project, 'make demo')} SECONDS=60", tmp_path, _DEMO_S, ports)


def test_make_test_passes(debian: BareDebian, project: Project, tmp_path: Path) -> None:
    run(debian, command_of_readme(project, "make test"), tmp_path, _TEST_S, {})


def run(debian: BareDebian, command: str, folder: Path, timeout_s: float, variables: dict[str, str]) -> None:
    log = folder / "output.log"
    code = debian.run(command, log, timeout_s, variables)
    assert code == 0, f"{command}: exit code {code}\n{log.read_text(encoding='utf-8', errors='replace')[-8_000:]}"
