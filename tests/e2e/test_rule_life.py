"""The life of a rule, as an analyst and an approver see it: a browser with a real Airflow, broker and detector."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from fraud_rules.configuration.project import Project
from tests.e2e.accessibility import LARGE_PAGES, violations, visit
from tests.e2e.navigation import bar_link
from tests.e2e.people import People
from tests.e2e.rules import MINIMAL, confirm
from tests.e2e.world import World
from tests.support.proofs import check_file

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PAYER = 4_711_001
SCRIPT = "<script>window.__ran = true</script><img src=x onerror='window.__ran = true'>"


def choose(page: Page, field: str, option: str) -> None:
    page.get_by_role("combobox", name=field, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_a_rule_from_its_first_draft_to_a_rollback(running: World, people: People) -> None:
    ann = people.open("ann", "/")
    expect(ann.get_by_role("heading", level=1)).to_contain_text("Today")
    bar_link(ann, "Rules").click()
    ann.get_by_role("link", name="New rule").click()
    form = ann.get_by_role("region", name="Form")
    form.get_by_label("Name").fill("Too much from one payer")
    choose(ann, "Aggregated field", "Amount (paymentAmount)")

    wrong = ann.get_by_role("status", name="Validation")
    expect(wrong).to_contain_text("Still missing: grouping keys")
    expect(wrong.get_by_role("listitem")).to_have_count(0)
    ann.get_by_role("button", name="Save as draft").click()
    expect(wrong).to_be_focused()
    expect(wrong.get_by_role("listitem")).to_have_count(2)
    expect(wrong).to_contain_text("groupingKeyNames")
    expect(wrong).to_contain_text("limit")

    form.get_by_label("Limit", exact=True).fill("100")
    choose(ann, "Grouping keys", "Payer (payeeId)")
    ann.keyboard.press("Escape")
    expect(wrong).to_contain_text("Valid.")
    expect(ann.get_by_label("Rule text")).to_contain_text("limit: 100")
    ann.get_by_role("button", name="Save as draft").click()
    expect(ann).to_have_url(re.compile(r"/rules/\d+$"))
    rule_id = int(ann.url.rsplit("/", 1)[1])
    expect(ann.get_by_role("main")).to_contain_text("Draft")

    ann.get_by_role("button", name="Move to shadow").click()
    confirm(ann, "Move to shadow")
    expect(ann.locator(".chip", has_text=re.compile("^Live$"))).to_be_visible()

    ann.get_by_role("button", name="Request activation").click()
    ann.get_by_role("dialog").get_by_label("Reason").fill("it found three frauds")
    confirm(ann, "Request activation")
    expect(ann.get_by_text("Another approver must decide")).to_have_count(0)
    expect(ann.get_by_text("An approver must decide")).to_be_visible()

    ben = people.open("ben", "/today")
    bar_link(ben, "Approvals").click()
    asked = ben.get_by_role("article", name=f"Rule {rule_id}")
    expect(asked).to_contain_text("it found three frauds")
    asked.get_by_role("button", name="Approve").click()
    expect(asked).to_have_count(0)

    head = ann.get_by_role("main")
    expect(head.locator(".chip", has_text="Active").first).to_be_visible()
    expect(head.locator(".chip", has_text=re.compile("^Live$"))).to_be_visible()

    bar_link(ann, "Alerts").click()
    expect(ann.get_by_role("status").filter(has_text="Live updates")).to_be_visible()
    running.pay(PAYER, 60, 55.5)
    alert = ann.get_by_role("listitem").filter(has_text=f"Payer {PAYER}")
    expect(alert).to_be_visible()
    expect(alert).to_contain_text("115.5")
    alert.get_by_role("button", name=re.compile("Too much")).click()
    alert.get_by_role("button", name="Show transactions").click()
    expect(alert.get_by_role("table").get_by_role("row")).to_have_count(3)
    with ann.expect_download() as download:
        alert.get_by_role("link", name="Download proof").click()
    proof, _, verdict = check_file(download.value.path().read_bytes())
    assert (verdict.differences, proof.audit[-1].who) == ([], "ben")
    alert.get_by_role("button", name="Fraud", exact=True).click()
    expect(alert).to_contain_text("Marked by ann")

    alert.get_by_role("link", name=re.compile("version that fired")).click()
    expect(ann.get_by_role("table", name="Revisions")).to_contain_text("Fired")

    ben.goto(f"{running.control}/rules/{rule_id}")
    ben.get_by_role("button", name="Pause", exact=True).click()
    confirm(ben, "Pause")
    expect(ben.get_by_role("main").locator(".chip", has_text="Paused").first).to_be_visible()

    ben.get_by_role("tab", name="Rule").click()
    ben.get_by_role("region", name="Form").get_by_label("Limit", exact=True).fill("500")
    ben.get_by_role("button", name="Save", exact=True).click()
    expect(ben.get_by_role("tab", name="unsaved")).to_have_count(0)
    ben.get_by_role("tab", name="Revisions").click()
    versions = ben.get_by_role("table", name="Revisions")
    expect(versions.get_by_role("row").nth(1)).to_contain_text("> 500")
    versions.get_by_role("row").nth(2).get_by_role("button", name=re.compile("Roll back")).click()
    expect(ben.get_by_role("dialog")).to_contain_text("500")
    confirm(ben, "Roll back")
    expect(versions.get_by_role("row").nth(1)).to_contain_text("> 100")


def test_a_script_in_a_name_is_text(running: World, people: People) -> None:
    rule_id = running.rule(
        {
            "name": SCRIPT,
            "description": SCRIPT,
            "groupingKeyNames": ["payeeId"],
            "aggregatorFunctionType": "COUNT",
            "limitOperatorType": ">=",
            "limit": 1,
            "windowMinutes": 5,
            "filter": "payeeId = 4711002",
        },
        "SHADOW",
    )
    running.await_live(rule_id)
    running.pay(4_711_002, 1)
    page = people.open("ann", "/rules")
    expect(page.get_by_role("link", name=SCRIPT)).to_be_visible()
    page.get_by_role("link", name=SCRIPT).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(SCRIPT)
    bar_link(page, "Alerts").click()
    expect(page.get_by_role("listitem").filter(has_text="Payer 4711002")).to_contain_text(SCRIPT)
    assert page.evaluate("window.__ran") is None


def test_the_address_of_airflow_names_the_page_and_its_filter(running: World, people: People) -> None:
    page = people.page("ann")
    page.goto(f"{running.airflow.site.url}/plugin/fraud-rules#/alerts?shadow=true")
    inner = page.frame_locator("iframe")
    expect(inner.get_by_role("heading", level=1, name="Alerts")).to_be_visible()
    bar_link(inner, "Rules").click()
    expect(page).to_have_url(re.compile(r"/plugin/fraud-rules[^#]*#/rules$"))
    inner.get_by_role("searchbox").fill("transfers")
    expect(page).to_have_url(re.compile(r"#/rules\?q=transfers$"))
    page.reload()
    expect(inner.get_by_role("searchbox")).to_have_value("transfers")


def test_the_rules_work_with_the_keyboard_alone(running: World, people: People) -> None:
    running.rule({"name": "Keyboard one", **MINIMAL})
    running.rule({"name": "Keyboard two", **MINIMAL})
    page = people.open("ann", "/rules")
    expect(page.get_by_role("link", name="Keyboard two")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("keyboard two")
    page.get_by_role("dialog").get_by_role("link", name="Keyboard two").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Keyboard two")
    page.go_back()
    page.get_by_role("searchbox").fill("keyboard")
    expect(page.get_by_role("table", name="Rules").get_by_role("row")).to_have_count(3)
    page.get_by_role("link", name="Keyboard one").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Keyboard two")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Keyboard two")
    page.get_by_role("region", name="Form").get_by_label("Name").focus()
    page.keyboard.press("End")
    page.keyboard.type(" and a half")
    expect(page.get_by_role("status", name="Validation")).to_contain_text("Valid.")
    page.keyboard.press("Control+s")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Keyboard two and a half")


def test_the_pages_with_the_most_elements_are_accessible(
    fired: int, running: World, people: People, project: Project
) -> None:
    """At one width and in one theme. `test_accessibility.py`, a long test, covers all pages, widths and themes."""
    page = people.page("admin")
    found = {}
    for name in LARGE_PAGES:
        visit(page, running.control, name, fired)
        found[name] = violations(page, project)
    assert not any(found.values()), found
