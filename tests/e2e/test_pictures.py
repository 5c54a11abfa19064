"""Takes the pictures of the documentation: FRAUD_SCREENSHOTS=docs/images pytest -m long tests/e2e/test_pictures.py.

FRAUD_ALL_SCREENSHOTS=FOLDER takes pictures of all pages instead: at 1280 px in both themes, and at 400 px.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from playwright.sync_api import Page, expect

from fraud_rules.deploy.attempt import AgentStatus, AttemptPhase, AttemptStatus
from fraud_rules.deploy.deployment_log import DeploymentLog, append_intent
from fraud_rules.deploy.intent import NO_EPOCH, Intent, IntentKind
from fraud_rules.runtime.clock import now_ms
from tests.e2e.accessibility import PAGES, visit
from tests.e2e.people import NARROW, WIDE, People
from tests.e2e.world import World
from tests.support.deployments import KEYS
from tests.support.operations.observations import DETECTOR, release
from tests.support.waiting import until

FOLDER = os.environ.get("FRAUD_SCREENSHOTS")
ALL_FOLDER = os.environ.get("FRAUD_ALL_SCREENSHOTS")
POINTS = 40

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(900),
]
documented = pytest.mark.skipif(FOLDER is None, reason="FRAUD_SCREENSHOTS names no folder")
complete = pytest.mark.skipif(ALL_FOLDER is None, reason="FRAUD_ALL_SCREENSHOTS names no folder")


@pytest.fixture(scope="module")
def busy(running: World, fired: int) -> Iterator[int]:
    """Send payments until the charts have enough points, and continue during the test."""
    enough = Event()
    beat = _agent(running)

    def pay() -> None:
        payer = 20_000
        while not enough.wait(0.05):
            payer += 1
            running.pay(payer, 12.5, 31, 7.25, beneficiary=payer % 40)
            if payer % 20 == 0:
                beat()

    paying = Thread(target=pay)
    paying.start()
    try:
        until(
            lambda: len(running.ask("GET", "/progress?minutes=15").json()["points"]) >= POINTS,
            "the charts have enough points",
            300,
        )
        yield fired
    finally:
        enough.set()
        paying.join()


@documented
@pytest.mark.parametrize("name", ["today", "rules", "cases"])
def test_a_picture_of_a_page(name: str, busy: int, running: World, people: People) -> None:
    page = people.page("ben")
    visit(page, running.control, name, busy)
    _keep(page, name)


@documented
def test_a_picture_of_a_payer(busy: int, people: People) -> None:
    page = people.open("ben", "/entity?field=payeeId&value=9105&days=7")
    expect(page.get_by_role("table", name="Rules").get_by_role("row").nth(1)).to_be_visible()
    expect(page.get_by_role("list", name="Alerts").get_by_role("listitem").first).to_be_visible()
    _keep(page, "entity")


@documented
def test_a_picture_of_a_request_with_its_what_if(busy: int, running: World, people: People) -> None:
    page = people.page("ben")
    visit(page, running.control, "approvals", busy)
    expect(page.get_by_text("Expected alerts per day").first).to_be_visible()
    _keep(page, "approvals")


@complete
@pytest.mark.parametrize("name", PAGES)
def test_pictures_of_every_page(name: str, busy: int, running: World, people: People) -> None:
    folder = Path(ALL_FOLDER or "")
    folder.mkdir(parents=True, exist_ok=True)
    for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW)):
        page = people.page("admin", size=size, theme=theme)
        visit(page, running.control, name, busy)
        page.screenshot(path=folder / f"{name}-{size['width']}-{theme}.png", full_page=True)


@documented
def test_a_picture_of_the_editor_with_errors(busy: int, running: World, people: People) -> None:
    page = people.page("ann")
    visit(page, running.control, "rule", busy)
    form = page.get_by_role("region", name="Form")
    form.get_by_label("Limit", exact=True).fill("20k")
    form.get_by_label("Filter").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" and amount > 5")
    wrong = page.get_by_role("status", name="Validation")
    expect(wrong.get_by_role("listitem")).to_have_count(2)
    page.get_by_role("heading", level=1).click()
    _keep(page, "editor")


@documented
def test_a_picture_of_an_alert_with_its_evidence(busy: int, people: People) -> None:
    page = people.open("ann", f"/alerts?ruleId={busy}")
    alert = page.get_by_role("list", name="Alerts").get_by_role("listitem").nth(1)
    alert.get_by_role("button", name=re.compile("Rapid")).click()
    alert.get_by_role("button", name="Show transactions").click()
    expect(alert.get_by_role("table").get_by_role("row")).to_have_count(3)
    _keep(page, "alerts")


@documented
def test_a_picture_of_the_detector(busy: int, running: World, people: People) -> None:
    page = people.page("ann")
    visit(page, running.control, "detector", busy)
    expect(page.get_by_role("region", name="Latency").locator("path.recharts-curve").first).to_be_visible()
    _keep(page, "detector")


def _agent(running: World) -> Callable[[], None]:
    """Append an intent to run the detector. Return a function that reports it as running, in place of the agent."""
    kafka, names = running.topics.kafka, running.topics.names
    intent = Intent(DETECTOR, IntentKind.RUN, "a", NO_EPOCH, "", "start", "here", now_ms(), release=release())
    asked = append_intent(kafka, names.detector_intents, intent, KEYS)
    log = DeploymentLog.open(kafka, names.detector_attempts, DETECTOR)
    status = AttemptStatus(DETECTOR, "a", asked.epoch, AttemptPhase.RUNNING, now_ms(), "agent", "host")

    def beat() -> None:
        log.write(AgentStatus(DETECTOR, "agent", "host", "code", now_ms(), asked.epoch, status), [status])

    beat()
    return beat


def _keep(page: Page, name: str) -> None:
    folder = Path(FOLDER or "")
    folder.mkdir(parents=True, exist_ok=True)
    expect(page.locator("[data-loading]")).to_have_count(0)
    page.screenshot(path=folder / f"control-plane-{name}.png", animations="disabled")
