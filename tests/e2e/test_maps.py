"""The life of a map: pasted, read by the limit of a rule, and changed with four eyes.

This is a long test: in the default run, `tests/unit/fraud_control/lists/test_maps.py` and `lists.test.tsx` show the
changes of a map, the conformance cases its use by a limit, and `test_rule_life.py` a change with four eyes.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.navigation import bar_link
from tests.e2e.people import People
from tests.e2e.rules import MINIMAL, confirm
from tests.e2e.world import World

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

PAYER = 4_711_020
MAP = "personal-limits"


def test_a_map_from_its_paste_to_a_changed_limit(running: World, people: People) -> None:
    ann = people.open("ann", "/maps")
    paste_map(ann)
    rule_id = running.rule(MINIMAL | {"name": "Above the personal limit"})
    complete_limit(ann, f"{running.control}/rules/{rule_id}")
    activate(running, rule_id)

    ann.goto(f"{running.control}/maps/{MAP}")
    expect(ann.get_by_role("region", name="Used by rules")).to_contain_text("Above the personal limit")
    expect(ann.get_by_role("button", name="Delete")).to_have_count(0)
    request_change(ann)
    ben = people.open("ben", "/approvals")
    asked = ben.get_by_role("article", name=f"Map {MAP}")
    expect(asked).to_contain_text("add 1 entry")
    expect(asked).to_contain_text(f"{PAYER},100")
    asked.get_by_role("button", name="Approve").click()
    expect(asked).to_have_count(0)
    expect(ann.get_by_role("row").filter(has_text=str(PAYER))).to_contain_text("100")
    expect(ann.get_by_role("main").locator(".chip", has_text=re.compile("^Live$")).first).to_be_visible()

    running.pay(PAYER, 60, 55.5)
    bar_link(ann, "Alerts").click()
    alert = ann.get_by_role("list", name="Alerts").get_by_role("listitem").filter(has_text=f"Payer {PAYER}")
    expect(alert).to_contain_text("115.5")
    see_history(ann, f"{running.control}/maps/{MAP}?tab=history")


def paste_map(ann: Page) -> None:
    ann.get_by_role("button", name="New map").click()
    dialog = ann.get_by_role("dialog")
    dialog.get_by_label("Name").fill(MAP)
    content = dialog.get_by_label("Entries, one key,value per line")
    content.fill(f"{PAYER},5000\n4711021,much")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("line 2")
    content.fill(f"{PAYER},5000\n4711021,70.5")
    dialog.get_by_role("button", name="Create").click()
    expect(ann).to_have_url(re.compile(f"/maps/{MAP}$"))
    expect(ann.get_by_role("table", name="Entries").get_by_role("row")).to_have_count(3)


def complete_limit(ann: Page, rule: str) -> None:
    """Give a rule the entry of the map as its limit. The editor completes the name of the map."""
    ann.goto(rule)
    form = ann.get_by_role("region", name="Form")
    form.get_by_label("Limit type").select_option("expression")
    limit = form.get_by_role("textbox", name="Limit", exact=True)
    limit.click()
    limit.fill("")
    ann.keyboard.type("coalesce(map('pers")
    ann.get_by_role("option", name=re.compile(MAP)).click()
    ann.keyboard.type("', payeeId), 1000000)")  # types over the quotes and brackets that the editor closed
    expect(limit).to_have_text(f"coalesce(map('{MAP}', payeeId), 1000000)")
    expect(ann.get_by_role("status", name="Validation")).to_contain_text("Valid.")
    ann.get_by_role("button", name="Save", exact=True).click()
    expect(ann.get_by_role("tab", name="unsaved")).to_have_count(0)


def activate(running: World, rule_id: int) -> None:
    etag = running.ask("GET", f"/rules/{rule_id}").headers["etag"]
    moved = running.ask("POST", f"/rules/{rule_id}/state", json={"state": "SHADOW"}, headers={"If-Match": etag})
    assert moved.is_success, moved.text
    running.request_active(rule_id)
    running.approve(rule_id)
    running.await_live(rule_id)


def request_change(ann: Page) -> None:
    ann.get_by_role("button", name="Change entries").click()
    dialog = ann.get_by_role("dialog")
    dialog.get_by_label("Entries, one key,value per line").fill(f"{PAYER},100")
    dialog.get_by_role("button", name="Preview").click()
    preview = dialog.get_by_role("table", name="Preview")
    expect(preview.get_by_role("row").filter(has_text="Removed")).to_contain_text(f"{PAYER},5000")
    expect(preview.get_by_role("row").filter(has_text="Added")).to_contain_text(f"{PAYER},100")
    dialog.get_by_label("Reason").fill("case 12")
    confirm(ann, "Request change")
    expect(ann.get_by_text("Awaiting approval: add 1 entry")).to_be_visible()


def see_history(ann: Page, history: str) -> None:
    ann.goto(history)
    newest = ann.get_by_role("table", name="Changes").get_by_role("row").nth(1)
    expect(newest).to_contain_text("Added: +1 \N{MINUS SIGN}1")
    expect(newest).to_contain_text("case 12")
    newest.get_by_role("button", name="Show entries").click()
    difference = ann.get_by_role("region", name="Entries of revision 2")
    expect(difference.get_by_role("row").filter(has_text="Removed")).to_contain_text(f"{PAYER},5000")
    expect(difference.get_by_role("row").filter(has_text="Added")).to_contain_text(f"{PAYER},100")
