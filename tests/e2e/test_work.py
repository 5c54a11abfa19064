"""The other tasks of users: what-if, demo, import, snooze, roles, outage and controls, in a real installation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fraud_demo.sender import Sender
from fraud_demo.steering import TrafficState
from fraud_demo.traffic import TrafficSettings
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import read_topic
from tests.e2e.accessibility import violations
from tests.e2e.navigation import bar_link, open_group
from tests.e2e.people import NARROW, People
from tests.e2e.rules import MINIMAL, confirm
from tests.e2e.world import ARCHIVED, NO_TRAFFIC, World
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PAYER = 4_712_000
QUIET_PER_S = 5
WHAT_IF_MS = 180_000


@pytest.fixture
def traffic(running: World) -> Iterator[None]:
    """Send synthetic traffic that the demo page can steer. It contains planted frauds only."""
    settings = TrafficSettings(rate_per_s=QUIET_PER_S, first_fraud_s=86_400)
    sender = Sender(running.topics.kafka, running.topics.names.transactions, settings, running.steering)
    sender.start()
    until(lambda: running.steering.state() == TrafficState(QUIET_PER_S), "there is traffic to steer")
    yield
    sender.stop()
    running.steering.write_state(NO_TRAFFIC)


def test_a_what_if_on_past_days_and_another_limit(running: World, people: People) -> None:
    rule_id = running.rule({**MINIMAL, "name": "To be tried", "limit": 150})
    page = people.open("ann", f"/rules/{rule_id}?tab=whatif")
    page.get_by_role("textbox", name="Wanted alerts per day").fill("100")
    page.get_by_role("button", name="Run what-if").click()
    facts = page.get_by_role("region", name="What-if")
    expect(facts).to_contain_text(f"Transactions evaluated{ARCHIVED:,}", timeout=WHAT_IF_MS)
    expect(facts).to_contain_text("Total alerts493")
    expect(page.get_by_role("region", name="Suggested limits")).to_contain_text("At most 100 alerts per day: limit")
    curve = page.get_by_role("region", name="Alerts by limit")
    expect(curve.locator("path.recharts-curve").first).to_be_visible()
    expect(curve).to_contain_text("limit 150: 493 alerts")
    chosen = curve.get_by_role("slider", name="Limit")
    chosen.focus()
    page.keyboard.press("End")
    expect(curve).to_contain_text("0 alerts")
    curve.get_by_role("button", name="Use this limit").click()
    page.get_by_role("tab", name="Rule (unsaved)").click()
    expect(page.get_by_role("region", name="Form").get_by_label("Limit", exact=True)).not_to_have_value("150")
    expect(page.get_by_role("status", name="Validation")).to_contain_text("Valid.")


def test_the_demo_is_steered_and_a_planted_fraud_is_alerted(running: World, people: People, traffic: None) -> None:
    huge = {**MINIMAL, "name": "Huge payments", "aggregatorFunctionType": "MAX", "limit": 50_000, "windowMinutes": 1}
    running.await_live(running.rule(huge, "SHADOW"))
    page = people.open("ann", "/demo")
    exactly = page.get_by_role("textbox", name="Transactions per second (exact value)")
    expect(exactly).to_have_value(str(QUIET_PER_S))
    exactly.fill("12")
    exactly.press("Tab")
    until(lambda: running.ask("GET", "/demo").json()["perS"] == 12, "the traffic changes")
    page.get_by_role("button", name="Plant huge payment").click()
    expect(page.get_by_role("status").filter(has_text="huge payment")).to_contain_text("sent")
    page.get_by_role("link", name="Show alerts").click()
    expect(page.get_by_role("listitem").filter(has_text="Huge payments").first).to_be_visible()
    bar_link(page, "Demo").click()
    page.get_by_role("button", name="Stop traffic").click()
    expect(exactly).to_have_value("0")


def test_exported_rules_are_imported_again(running: World, people: People, tmp_path: Path) -> None:
    rule_id = running.rule({**MINIMAL, "name": "To be exported", "limit": 123_456}, "SHADOW")
    page = people.open("ann", "/rules")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="JSON").click()
    exported = tmp_path / "exported.json"
    download.value.save_as(exported)
    (mine,) = (each for each in json.loads(exported.read_text()) if each["ruleId"] == rule_id)
    assert mine["limit"] == 123_456

    new_id = rule_id + 1_000
    file = tmp_path / "rules.json"
    file.write_text(json.dumps([{**mine, "limit": 99}, {**mine, "ruleId": new_id, "name": "Brought in"}]))
    page.get_by_role("button", name="Import").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("input[type=file]").set_input_files(file)
    expect(dialog.get_by_role("button", name="Import", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Preview").click()
    rows = dialog.get_by_role("table", name="Import preview").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("changed")
    expect(rows.nth(2)).to_contain_text("added")
    confirm(page, "Import")
    expect(page.get_by_role("link", name=f"{new_id} Brought in")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="To be exported")).to_contain_text("more than 99")

    page.get_by_role("button", name="Import").click()
    dialog.get_by_label("Rules (JSON").fill(json.dumps({**mine, "limit": "much"}))
    dialog.get_by_role("button", name="Preview").click()
    expect(rows.nth(1)).to_contain_text("rejected")
    expect(rows.nth(1)).to_contain_text("limit")
    expect(dialog.get_by_role("button", name="Import", exact=True)).to_be_disabled()


def test_a_snooze_hides_one_key_until_it_ends(running: World, people: People) -> None:
    each = {**MINIMAL, "name": "Each card payment", "aggregatorFunctionType": "COUNT", "limit": 0, "windowMinutes": 1}
    rule_id = running.rule({**each, "filter": f"payeeId >= {PAYER} and payeeId < {PAYER + 100}"}, "SHADOW")
    running.await_live(rule_id)
    page = people.open("ann", f"/alerts?ruleId={rule_id}")
    running.pay(PAYER + 1, 5)
    running.pay(PAYER + 2, 5)
    alerts = page.get_by_role("list", name="Alerts").get_by_role("listitem")
    expect(alerts).to_have_count(2)
    one, other = alerts.filter(has_text=f"Payer {PAYER + 1}"), alerts.filter(has_text=f"Payer {PAYER + 2}")
    one.get_by_role("button", name=re.compile("Each card")).click()
    one.get_by_role("button", name="Snooze").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("a known customer")
    confirm(page, "Snooze")
    expect(alerts).to_have_count(1)
    running.pay(PAYER + 1, 6)
    running.pay(PAYER + 2, 6)
    expect(other).to_have_count(2)
    expect(one).to_have_count(0)
    page.get_by_role("switch", name="Show snoozed").click()
    expect(one).to_have_count(2)
    expect(one.first).to_contain_text("Snoozed")
    page.get_by_role("switch", name="Show snoozed").click()
    expect(one).to_have_count(0)
    page.get_by_text("1 active snooze").click()
    expect(page.get_by_text("a known customer")).to_be_visible()
    page.get_by_role("button", name="End snooze").click()
    expect(one).to_have_count(2)


def test_a_case_is_assigned_by_mouse_and_by_keyboard(fired: int, people: People) -> None:
    ann = people.open("ann", "/cases")
    ann.get_by_role("table", name="Cases").get_by_role("link", name="9106").click()
    assignee = ann.get_by_role("combobox", name="Assignee")
    expect(assignee).to_have_value("Unassigned")
    assignee.click()
    expect(ann.get_by_role("option", name="vera")).to_have_count(0)
    ann.get_by_role("option", name="ben", exact=True).click()
    ann.get_by_role("dialog").get_by_label("Note").fill("my shift ends")
    ann.get_by_role("dialog").get_by_role("button", name="Hand over").click()
    expect(ann.get_by_text("Assigned to ben", exact=True)).to_be_visible()
    ben = people.open("ben", "/cases?owner=handed")
    ben.get_by_role("table", name="Cases").get_by_role("link").click()
    expect(ben.get_by_role("list", name="History")).to_contain_text("ann assigned to ben")
    expect(ben.get_by_text("Handed over by ann: my shift ends")).to_be_visible()
    field = ben.get_by_role("combobox", name="Assignee")
    field.focus()
    field.fill("an")
    expect(ben.get_by_role("option", name="ann", exact=True)).to_be_visible()
    ben.keyboard.press("ArrowDown")
    ben.keyboard.press("Enter")
    expect(ben.get_by_role("dialog").get_by_label("Note")).to_be_focused()
    ben.keyboard.press("Enter")
    expect(ben.get_by_text("Assigned to ann", exact=True)).to_be_visible()
    field.fill("unassigned")
    ben.keyboard.press("ArrowDown")
    ben.keyboard.press("Enter")
    expect(ben.get_by_text("Unassigned", exact=True).first).to_be_visible()


def test_the_menu_of_a_narrow_window_reaches_every_page_by_keyboard(people: People) -> None:
    wide = people.open("admin", "/today")
    number_of_pages = 0
    for group in ("Work", "Rules", "Run"):
        grouped = open_group(wide, group)
        expect(grouped.last).to_be_in_viewport(ratio=1)
        number_of_pages += grouped.count()
    page = people.open("admin", "/today", size=NARROW)
    menu = page.get_by_role("button", name="Menu")
    links = page.get_by_role("navigation", name="Fraud rules").get_by_role("link")
    expect(menu).to_contain_text("Today")
    expect(links).to_have_count(0)
    menu.press("Enter")
    expect(links).to_have_count(number_of_pages)
    for number in range(number_of_pages):
        page.keyboard.press("Tab")
        expect(links.nth(number)).to_be_focused()
        expect(links.nth(number)).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(links).to_have_count(0)
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    links.get_by_text("Detector").press("Enter")
    expect(page.get_by_role("heading", level=1, name="Detector")).to_be_visible()
    expect(menu).to_contain_text("Detector")
    expect(links).to_have_count(0)


def test_an_admin_assigns_a_role_and_removes_it(running: World, people: People) -> None:
    vera = people.open("vera", "/rules")
    expect(vera.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    expect(vera.get_by_role("link", name="New rule")).to_have_count(0)
    admin = people.open("admin", "/admin")
    choose_role(admin, "vera", "analyst")
    vera.reload()
    expect(vera.get_by_role("link", name="New rule")).to_be_visible()
    choose_role(admin, "vera", "viewer")
    vera.reload()
    expect(vera.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    expect(vera.get_by_role("link", name="New rule")).to_have_count(0)
    admin.get_by_role("textbox", name="User").fill("zoe")
    admin.get_by_role("button", name="Assign").click()
    expect(admin.get_by_role("row").filter(has_text="zoe")).to_contain_text("admin")
    admin.get_by_role("button", name="Remove role of zoe").click()
    expect(admin.get_by_role("row").filter(has_text="zoe")).to_have_count(0)


def choose_role(admin: Page, user: str, role: str) -> None:
    admin.get_by_role("combobox", name=f"Role of {user}").click()
    admin.get_by_role("option", name=re.compile(f"^{role}")).click()
    until(lambda: {"user": user, "role": role}.items() <= bound(admin, user).items(), f"{user} is {role}")


def bound(admin: Page, user: str) -> dict[str, str]:
    answer = admin.request.get(admin.url.replace("/admin", "/api/bindings")).json()
    return next(each for each in answer["items"] if each["user"] == user)


def test_a_name_is_completed_by_keyboard(people: People) -> None:
    page = people.open("ann", "/rules/new")
    text = page.get_by_label("Rule text")
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("unique: [pay")
    offered = page.get_by_role("option", name=re.compile("^paymentType"))
    expect(offered).to_be_visible()
    # Type slowly: a completion list that has just opened ignores Enter for a moment.
    page.keyboard.type("mentT", delay=50)
    expect(offered).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(text).to_contain_text("unique: [paymentType]")


def test_a_dead_detector_shows_on_every_page(running: World, people: People, project: Project) -> None:
    page = people.open("vera", "/rules")
    banner = page.get_by_role("region", name="Outage")
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    until(lambda: running.ask("GET", "/liveness").json()["severity"] == "NONE", "payments are evaluated")
    expect(banner).to_have_count(0)
    running.detector.kill()
    running.pay(PAYER, 1, 2, 3)
    expect(banner).to_contain_text(re.compile(r"No payment evaluated since \d\d:\d\d:\d\d\. 3 payments waiting\."))
    expect(page.get_by_text(re.compile(r"\d+ loaded, none evaluated since"))).to_be_visible()
    for name in ("Alerts", "Detector"):
        bar_link(page, name).click()
        expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
        expect(banner).to_be_visible()
    expect(page.get_by_role("region", name="Metrics")).to_contain_text("Waiting payments: 3")
    expect(page.get_by_role("region", name="Metrics")).to_contain_text("as of")
    assert not violations(page, project)
    running.restart_detector()
    expect(banner).to_have_count(0)
    expect(page.get_by_role("region", name="Metrics")).to_contain_text("Waiting payments: 0")


def test_a_control_of_all_rules_needs_a_typed_confirmation(running: World, people: People) -> None:
    """The last test in this installation: it deletes all rules."""
    page = people.open("admin", "/admin")
    for title, control in (("Clear all state", "CLEAR_STATE_ALL"), ("Delete all rules", "DELETE_RULES_ALL")):
        page.get_by_role("button", name=f"{title} …", exact=True).click()
        dialog = page.get_by_role("dialog")
        send: Locator = dialog.get_by_role("button", name=title, exact=True)
        expect(send).to_be_disabled()
        dialog.get_by_label(f"Type {control}").fill(control.lower())
        expect(send).to_be_disabled()
        dialog.get_by_label(f"Type {control}").fill(control)
        dialog.get_by_label("Comment").fill("a drill")
        confirm(page, title)
        until(lambda control=control: control in controls(running), f"{control} is in the rule log")  # type: ignore[misc]
    bar_link(page, "Rules").click()
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    expect(page.locator(".chip", has_text=re.compile("^(Shadow|Active|Paused)$"))).to_have_count(0)
    bar_link(page, "Audit").click()
    audit = page.get_by_role("table", name="Audit log")
    expect(audit.get_by_role("row").filter(has_text="CLEAR_STATE_ALL")).to_contain_text("admin")


def controls(running: World) -> list[str]:
    """Return the control types in the rule log."""
    records = read_topic(running.topics.kafka, running.topics.names.rules)[0]
    bodies = [json.loads(record.value or b"{}") for record in records]
    return [each["controlType"] for each in bodies if "controlType" in each]
