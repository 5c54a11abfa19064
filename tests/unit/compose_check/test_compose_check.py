"""The parts of `make compose-check` that need no container."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose_check.composefile import ComposeFile
from compose_check.errors import CheckFailed
from compose_check.machine import ContainerSite, require_programs
from compose_check.payments import PlantedFraud
from compose_check.report import Results, update_page
from compose_check.run import Ports, environment_file
from compose_check.stack import ContainerState
from compose_check.waiting import await_progress
from fraud_rules.configuration.project import Project

FILE = """
services:
  web: {image: "${APP:?fill in}", build: {context: .}, depends_on: {init: {condition: service_completed_successfully}}}
  init: {image: app, depends_on: {store: {condition: service_healthy}}}
  store: {image: "store:1", environment: {PASSWORD: "${PASSWORD:?fill in}", PORT: "${PORT:-1}"}}
  worker: {image: app, deploy: {replicas: 2}, depends_on: {web: {condition: service_healthy}}}
"""


def test_services_come_in_the_order_of_their_conditions(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yml"
    path.write_text(FILE, encoding="utf-8")
    file = ComposeFile.read(path)
    assert [service.name for service in file.services] == ["store", "init", "web", "worker"]
    assert [service.name for service in file.long_running] == ["store", "web", "worker"]
    assert [service.replicas for service in file.services] == [1, 1, 1, 2]
    assert file.secrets == ("APP", "PASSWORD")


def test_the_projects_file_needs_only_variables_that_the_check_sets(project: Project) -> None:
    file = ComposeFile.read(project.root / "docker-compose.yml")
    variables = environment_file(file, Ports(1, 2, 3))
    assert set(file.secrets) <= variables.keys()
    assert all(variables.values())
    assert {"init"} == {service.name for service in file.services if service.one_shot}


def test_missing_programs_are_named_with_the_command_that_installs_them(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"apt-get install .*podman.*debootstrap"):
        require_programs(str(tmp_path))


def test_the_settings_of_containers_stay_in_the_folder_of_the_check(tmp_path: Path) -> None:
    site = ContainerSite(tmp_path / "home", tmp_path / "run")
    site.prepare()
    named = {name: value for name, value in site.environment.items() if name.startswith("CONTAINERS_")}
    assert all(Path(value).is_relative_to(site.home) and Path(value).is_file() for value in named.values())
    assert 'runtime = "runc"' in Path(named["CONTAINERS_CONF"]).read_text(encoding="utf-8")
    site.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("state", "one_shot", "fault"),
    [
        (ContainerState("c", running=True, pid=7, exit_code=0, restarts=0), False, None),
        (ContainerState("c", running=False, pid=0, exit_code=0, restarts=0), True, None),
        (ContainerState("c", running=False, pid=0, exit_code=2, restarts=0), True, "exit code 2"),
        # A long-running service restarts by its policy.
        (ContainerState("c", running=False, pid=0, exit_code=137, restarts=1), False, None),
        (ContainerState("c", running=True, pid=7, exit_code=1, restarts=9), False, "restarted 9 times"),
    ],
)
def test_a_container_that_cannot_become_ready_has_a_fault(
    state: ContainerState, one_shot: bool, fault: str | None
) -> None:
    found = state.fault(one_shot)
    assert found is None if fault is None else fault in str(found)


def test_a_wait_ends_without_progress_and_not_for_slowness() -> None:
    steps = iter(range(1_000))
    slow = iter([False] * 30 + [True])
    await_progress(lambda: next(slow), lambda: next(steps), CheckFailed, every_s=0.01, quiet_s=0.05)
    with pytest.raises(CheckFailed, match=r"no progress for 0\.05 s"):
        await_progress(lambda: False, lambda: 0, CheckFailed, every_s=0.01, quiet_s=0.05)
    with pytest.raises(CheckFailed, match=r"not within 0\.05 s"):
        await_progress(lambda: False, lambda: next(steps), CheckFailed, every_s=0.01, most_s=0.05)


def test_a_planted_payment_knows_its_alert() -> None:
    fraud = PlantedFraud(4, 77, "60000.00")
    assert b'"paymentAmount": "60000.00"' in fraud.payment(1_000)
    assert fraud.is_reported_by({"ruleId": 4, "triggeringEvent": {"transactionId": 77}})
    assert not fraud.is_reported_by({"ruleId": 5, "triggeringEvent": {"transactionId": 77}})


def test_the_page_keeps_its_text_and_gets_the_results(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- results -->\nold\n<!-- end of results -->\nText\n", encoding="utf-8")
    results = Results("now", {"memory": "2 GiB"}, 1, {"init": 2, "kafka": 3}, 4, 5, 6, {"kafka": 7}, 8, 9)
    update_page(page, results)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Title\n<!-- results -->\n")
    assert text.endswith("<!-- end of results -->\nText\n")
    assert "| kafka | 3 | 7 |" in text
    assert "| init | 2 |  |" in text
    assert "old" not in text
    page.write_text("# Title\n", encoding="utf-8")
    with pytest.raises(CheckFailed, match="no place"):
        update_page(page, results)
