"""The other tasks of users: demo, menu, roles, completion and controls, in a real installation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from fraud_demo.sender import Sender
from fraud_demo.steering import TrafficState
from fraud_demo.traffic import TrafficSettings
from fraud_rules.kafka.consume import read_topic
from tests.e2e.navigation import bar_link, open_group
from tests.e2e.people import NARROW, People
from tests.e2e.rules import MINIMAL, confirm
from tests.e2e.world import NO_TRAFFIC, World
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

QUIET_PER_S = 5


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
