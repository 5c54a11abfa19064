"""The tour of README.md, click by click, as a visitor without a session."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from fraud_rules.configuration.project import Project
from tests.e2e.navigation import bar_link
from tests.e2e.people import People
from tests.e2e.world import World
from tests.support.control_plane.web.api_server import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

MOST_CLICKS = 20
NAMES_IN_README = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)")
WHAT_IF_MS = 180_000


class Tour:
    """Counts the clicks, and collects the names on the page that README.md mentions."""

    def __init__(self) -> None:
        self.clicks = 0
        self.seen = {"Today"}

    def click(self, target: Locator, name: str = "") -> None:
        target.click()
        self.clicks += 1
        self.seen.add(name)


@pytest.fixture
def tour() -> Tour:
    return Tour()


def test_the_tour_of_the_readme_takes_twenty_clicks(
    fired: int, running: World, people: People, tour: Tour, project: Project
) -> None:
    ann = logged_in(people, running, "ann", tour)
    expect(ann.get_by_role("heading", level=1)).to_contain_text("Today")
    rule_id = write_rule(ann, tour)
    ben = logged_in(people, running, "ben", tour)
    approve(ben, rule_id, tour)
    expect(ann.locator(".chip", has_text=re.compile("^Active$")).first).to_be_visible()
    visit_case(ann, tour)
    readme = (project.root / "README.md").read_text(encoding="utf-8")
    text = readme.partition("## A tour in five minutes")[2].partition("\n## ")[0]
    assert set(NAMES_IN_README.findall(text)) == tour.seen - {"", "Today"}
    assert tour.clicks <= MOST_CLICKS
    assert f"{tour.clicks} clicks" in text


def logged_in(people: People, running: World, user: str, tour: Tour) -> Page:
    """A visit without a session leads to Airflow's login, and from there back to the page."""
    page = people.visitor()
    page.goto(running.control + "/")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    tour.click(page.get_by_role("button", name="Sign in"))
    expect(page).to_have_url(f"{running.control}/today")
    return page


def write_rule(ann: Page, tour: Tour) -> int:
    """From an alert to a request for the activation of a rule. Return the id of the rule."""
    tour.click(bar_link(ann, "Alerts"), "Alerts")
    alert = ann.get_by_role("list", name="Alerts").get_by_role("listitem").filter(has_text="Rapid transfers").first
    tour.click(alert.get_by_role("button").first)
    tour.click(alert.get_by_role("button", name="Show transactions"), "Show transactions")
    expect(alert.get_by_role("table").get_by_role("row").nth(1)).to_be_visible()
    tour.click(ann.get_by_role("link", name="New rule from this alert"), "New rule from this alert")
    limit = ann.get_by_role("region", name="Form").get_by_label("Limit", exact=True)
    tour.click(limit)
    limit.fill("50")
    tour.click(ann.get_by_role("tab", name="What-if"), "What-if")
    tour.click(ann.get_by_role("button", name="Run what-if"), "Run what-if")
    whatif = ann.get_by_role("region", name="What-if")
    expect(whatif).to_contain_text("Transactions evaluated", timeout=WHAT_IF_MS)
    tour.click(ann.get_by_role("button", name="Save as draft"), "Save as draft")
    expect(ann).to_have_url(re.compile(r"/rules/\d+$"))
    for change in ("Move to shadow", "Request activation"):
        tour.click(ann.get_by_role("button", name=change), change)
        dialog = ann.get_by_role("dialog")
        if change == "Request activation":
            expect(dialog.get_by_label("Reason")).to_be_focused()
            ann.keyboard.type("smaller sums, too")
        tour.click(dialog.get_by_role("button", name=change))
        expect(dialog).to_have_count(0)
        if change == "Move to shadow":
            expect(ann.locator(".chip", has_text=re.compile("^Live$"))).to_be_visible()
    return int(ann.url.rsplit("/", 1)[1])


def approve(ben: Page, rule_id: int, tour: Tour) -> None:
    tour.click(bar_link(ben, "Approvals"), "Approvals")
    asked = ben.get_by_role("article", name=f"Rule {rule_id}")
    expect(asked).to_contain_text("smaller sums, too")
    expect(asked).to_contain_text("Expected alerts per day")
    tour.click(asked.get_by_role("button", name="Approve"), "Approve")
    expect(asked).to_have_count(0)


def visit_case(ann: Page, tour: Tour) -> None:
    """Take a case and look at the next one with the keyboard, and open the page of its payer."""
    tour.click(bar_link(ann, "Cases"), "Cases")
    tour.click(ann.get_by_role("link", name=re.compile("^Payer 91")).first)
    expect(ann.get_by_role("heading", level=1)).to_have_text(re.compile("^Payer 91"))
    first = ann.get_by_role("heading", level=1).inner_text()
    expect(ann.get_by_role("list", name="Alerts").get_by_role("listitem")).to_have_count(1)
    ann.keyboard.press("a")
    expect(ann.get_by_text("Assigned to ann", exact=True)).to_be_visible()
    ann.keyboard.press("j")
    expect(ann.get_by_role("heading", level=1)).not_to_have_text(first)
    expect(ann.get_by_role("list", name="Alerts").get_by_role("listitem")).not_to_have_count(0)
    ann.keyboard.press("c")
    expect(ann.get_by_role("dialog")).to_be_visible()
    ann.keyboard.press("Escape")
    tour.click(ann.get_by_role("button", name="Shortcuts"), "Shortcuts")
    expect(ann.get_by_role("dialog", name="Shortcuts")).to_contain_text("j")
    ann.keyboard.press("Escape")
    tour.click(ann.get_by_role("link", name="Entity page"), "Entity page")
    for part in ("Payments", "Alerts", "Lists"):
        expect(ann.get_by_role("main")).to_contain_text(part)
