"""A flood of alerts is cleared: its cases are closed by a filter, and an undo reopens them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.people import People
from tests.e2e.rules import MINIMAL
from tests.e2e.world import World
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PAYER = 5_300_000
PAYERS = 12
FLOODING = {
    **MINIMAL,
    "name": "Too low a limit",
    "severity": "low",
    "aggregatorFunctionType": "COUNT",
    "limit": 0,
    "windowMinutes": 1,
    "filter": f"payeeId >= {PAYER} and payeeId < {PAYER + PAYERS}",
}


@pytest.fixture
def flooded(running: World) -> int:
    """A live rule that has opened a case for each payment. Return its id."""
    rule_id = running.rule(FLOODING, "SHADOW")
    running.request_active(rule_id)
    running.approve(rule_id)
    running.await_live(rule_id)
    for payer in range(PAYER, PAYER + PAYERS):
        running.pay(payer, 5)
    until(lambda: count(running, rule_id) == PAYERS, "each payer has a case")
    return rule_id


def count(running: World, rule_id: int) -> int:
    answer = running.ask("GET", f"/cases/matching?ruleId={rule_id}")
    return int(answer.json()["count"])


def test_the_cases_of_a_flood_are_closed_by_a_filter_and_reopened_by_an_undo(
    running: World, people: People, flooded: int
) -> None:
    page = people.open("ann", f"/cases?ruleId={flooded}")
    cases = page.get_by_role("table", name="Cases")
    rows = cases.get_by_role("link")
    expect(rows).to_have_count(PAYERS)
    page.get_by_role("button", name="Close all that match").click()
    dialog = page.get_by_role("dialog")
    send = dialog.get_by_role("button", name=f"Close {PAYERS} cases")
    expect(send).to_be_disabled()
    dialog.get_by_label("Not fraud", exact=True).check()
    dialog.get_by_label("Mark their unreviewed alerts as not fraud").check()
    send.click()
    expect(dialog).to_contain_text(f"{PAYERS} cases closed, {PAYERS} alerts marked.")
    expect(cases).to_have_count(0)
    dialog.get_by_role("button", name="Undo").click()
    expect(dialog).to_contain_text(f"Undone: {PAYERS} cases reopened, {PAYERS} marks removed.")
    dialog.get_by_role("button", name="Done").click()
    expect(rows).to_have_count(PAYERS)

    page.keyboard.press("j")
    expect(rows.first).to_be_focused()
    page.keyboard.press("n")
    expect(cases.get_by_role("row").nth(1)).to_contain_text("0 unreviewed")

    page.get_by_role("button", name="Close all that match").click()
    dialog.get_by_label("Inconclusive").check()
    send.click()
    expect(dialog).to_contain_text(f"{PAYERS} cases closed, 0 alerts marked.")
    assert count(running, flooded) == 0
    actions = [each["action"] for each in running.ask("GET", "/audit?limit=10").json()["items"]]
    assert [each for each in actions if each.startswith("case.bulk")] == [
        "case.bulk_close",
        "case.bulk_undo",
        "case.bulk_close",
    ]
