"""The day of three users: a viewer, an analyst and an approver, from an alert to a better rule that is live.

This is a long test, because the default run shows its steps elsewhere: the tour has those of the analyst and the
approver, `test_access.py` what a viewer may do, and `cases.test.tsx` how a case is closed by keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.navigation import bar_link
from tests.e2e.people import People
from tests.e2e.rules import confirm
from tests.e2e.world import ARCHIVED, World

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

NAME = "Several payments in a row"
PAYER = 4_713_001
MOST_CLICKS = 6
WHAT_IF_MS = 180_000


@pytest.fixture(autouse=True)
def other_rules_only(running: World) -> Iterator[None]:
    """Pause the new rule after the test, so that it does not fire in other tests."""
    yield
    for each in running.ask("GET", "/rules?limit=1000").json()["items"]:
        if each["name"] == NAME and each["state"] == "ACTIVE":
            etag = running.ask("GET", f"/rules/{each['ruleId']}").headers["etag"]
            path = f"/rules/{each['ruleId']}/state"
            paused = running.ask("POST", path, "ben", json={"state": "PAUSE"}, headers={"If-Match": etag})
            assert paused.status_code == 200, paused.text
            running.await_live(each["ruleId"])


def test_the_day_of_a_viewer_an_analyst_and_an_approver(fired: int, running: World, people: People) -> None:
    vera, ann, ben = (people.open(user, "/") for user in ("vera", "ann", "ben"))
    read_the_morning(vera)
    open_newest_alert(ann, f"{running.control}/alerts?ruleId={fired}")
    presses = counted_presses(ann)
    rule_id = save_rule_like_this(ann)
    assert ann.evaluate(presses) <= MOST_CLICKS
    request_activation(ann)
    approve_with_figures(ben, rule_id)
    expect(row_of(vera)).to_contain_text(re.compile("Active.*Live", re.DOTALL))
    running.await_live(rule_id)
    running.pay(PAYER, 51)
    close_case(ann, f"Payer {PAYER}")
    bar_link(vera, "Today").click()
    expect(vera.get_by_role("region", name="Recent changes")).to_contain_text(NAME)


def read_the_morning(vera: Page) -> None:
    """A viewer reads the figures of the day and an alert, and can change neither rules nor marks."""
    expect(vera.get_by_role("status", name="Detector")).to_contain_text("last batch")
    rules = vera.get_by_role("table", name="Rules with the most alerts")
    rules.get_by_role("row").filter(has_text="Rapid transfers to one").get_by_role("link").nth(1).click()
    alert = vera.get_by_role("list", name="Alerts").get_by_role("listitem").first
    alert.get_by_role("button").click()
    expect(vera).to_have_url(re.compile("alert="))
    expect(alert).to_contain_text("Payer ••••")
    expect(alert.get_by_role("link", name="Payer")).to_have_count(0)
    expect(alert.get_by_role("button", name="Fraud", exact=True)).to_have_count(0)
    expect(alert.get_by_role("link", name="New rule from this alert")).to_have_count(0)
    vera.reload()
    expect(alert.get_by_role("button", expanded=True)).to_be_visible()
    bar_link(vera, "Approvals").click()
    expect(vera.get_by_role("article").first).to_contain_text("An approver must decide.")
    expect(vera.get_by_role("button", name="Approve")).to_have_count(0)


def open_newest_alert(ann: Page, alerts: str) -> None:
    ann.goto(alerts)
    ann.get_by_role("list", name="Alerts").get_by_role("listitem").first.get_by_role("button").click()
    expect(ann.get_by_role("link", name="New rule from this alert")).to_be_visible()


def counted_presses(page: Page) -> str:
    """Count the presses of the mouse on this page from now on. Return the expression of their number."""
    page.evaluate("window.presses = 0; window.addEventListener('pointerdown', () => { window.presses += 1 }, true)")
    return "window.presses"


def save_rule_like_this(ann: Page) -> int:
    """Make a rule from the open alert with a lower limit, try it on past days, and save it. Return its id."""
    ann.get_by_role("link", name="New rule from this alert").click()
    form = ann.get_by_role("region", name="Form")
    form.get_by_label("Name").fill(NAME)
    form.get_by_label("Limit", exact=True).fill("50")
    ann.get_by_role("tab", name="What-if").click()
    ann.get_by_role("button", name="Run what-if").click()
    facts = ann.get_by_role("region", name="What-if")
    expect(facts).to_contain_text(f"Transactions evaluated{ARCHIVED:,}", timeout=WHAT_IF_MS)
    ann.get_by_role("tab", name="Rule (unsaved)").click()
    ann.get_by_role("button", name="Save as draft").click()
    expect(ann).to_have_url(re.compile(r"/rules/\d+$"))
    return int(ann.url.rsplit("/", 1)[1])


def request_activation(ann: Page) -> None:
    ann.get_by_role("button", name="Move to shadow").click()
    confirm(ann, "Move to shadow")
    expect(ann.locator(".chip", has_text=re.compile("^Live$"))).to_be_visible()
    ann.get_by_role("button", name="Request activation").click()
    ann.get_by_role("dialog").get_by_label("Reason").fill("finds smaller frauds, too")
    confirm(ann, "Request activation")


def approve_with_figures(ben: Page, rule_id: int) -> None:
    """The approver sees the analyst's what-if and the shadow alerts beside the request."""
    bar_link(ben, "Approvals").click()
    asked = ben.get_by_role("article", name=f"Rule {rule_id}")
    expect(asked).to_contain_text("finds smaller frauds, too")
    expect(asked).to_contain_text("Expected alerts per day")
    expect(asked).to_contain_text("Shadow alerts")
    approve = asked.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    approve.focus()
    ben.keyboard.press("Enter")
    expect(asked).to_have_count(0)


def row_of(page: Page) -> Locator:
    """Open the page *Rules*, and return the row of the new rule."""
    bar_link(page, "Rules").click()
    return page.get_by_role("table", name="Rules").get_by_role("row").filter(has_text=NAME)


def close_case(page: Page, entity: str) -> None:
    """Find a case in the review queue, and close it by keyboard."""
    bar_link(page, "Cases").click()
    page.get_by_role("link", name=entity, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=entity)).to_be_visible()
    expect(page.get_by_role("list", name="Alerts").get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.get_by_text("Assigned to ann", exact=True)).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("radio", name="Fraud", exact=True)).to_be_focused()
    page.keyboard.press("Space")
    page.get_by_role("dialog").get_by_label("Comment").fill("the payer reported it")
    close = page.get_by_role("dialog").get_by_role("button", name="Close case")
    close.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Closed: fraud", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="History")).to_contain_text("the payer reported it")
    page.keyboard.press("u")
    expect(page.get_by_role("heading", level=1, name="Cases")).to_be_visible()
    expect(page.get_by_role("link", name=entity, exact=True)).to_have_count(0)
