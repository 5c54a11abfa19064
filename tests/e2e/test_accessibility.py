"""Every page and dialog in both themes and at several widths: no axe-core violation, nothing wider than the window."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from playwright.sync_api import Page, expect

from fraud_rules.configuration.project import Project
from tests.e2e.accessibility import DIALOGS, PAGES, violations, visit
from tests.e2e.people import MEDIUM, NARROW, WIDE, WIDEST, People
from tests.e2e.rules import MINIMAL
from tests.e2e.world import World

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible(
    name: str, theme: str, fired: int, running: World, people: People, project: Project
) -> None:
    page = people.page("admin", size=WIDE, theme=theme)
    visit(page, running.control, name, fired)
    assert page.evaluate("document.documentElement.dataset.mantineColorScheme") == theme
    assert_fits_and_is_accessible(page, (WIDE, WIDEST, MEDIUM, NARROW), project)


@pytest.mark.parametrize("name", ["cases", "rules", "alerts"])
def test_a_row_has_at_most_44_pixels(name: str, fired: int, running: World, people: People) -> None:
    page = people.page("ann", size=WIDEST)
    visit(page, running.control, name, fired)
    rows = page.locator("tbody tr, ol[aria-label=Alerts] > li")
    assert max(rows.evaluate_all("rows => rows.map(row => row.offsetHeight)")) <= 44


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_conflict_of_two_edits_is_accessible(theme: str, running: World, people: People, project: Project) -> None:
    document = {**MINIMAL, "name": f"Edited by two, {theme}"}
    rule_id = running.rule(document)
    page = people.page("ann", size=WIDE, theme=theme)
    page.goto(f"{running.control}/rules/{rule_id}")
    page.get_by_role("region", name="Form").get_by_label("Limit", exact=True).fill("700000")
    etag = running.ask("GET", f"/rules/{rule_id}").headers["etag"]
    change = {"document": {**document, "limit": 800_000}, "comment": ""}
    assert running.ask("PUT", f"/rules/{rule_id}", "ben", json=change, headers={"If-Match": etag}).is_success
    expect(page.get_by_role("alert")).to_contain_text("after you started")
    assert_fits_and_is_accessible(page, (WIDE, MEDIUM, NARROW), project)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_opens_and_closes_by_keyboard_and_is_accessible(
    name: str, theme: str, fired: int, running: World, people: People, project: Project
) -> None:
    page = people.page("admin", size=WIDE, theme=theme)
    on_page, opens = DIALOGS[name]
    visit(page, running.control, on_page, fired)
    button = page.get_by_role("button", name=opens, exact=True).first
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert_fits_and_is_accessible(page, (WIDE, NARROW), project)
    page.keyboard.press("Tab")
    expect(dialog.locator(":focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_runbook_copies_its_commands_leads_to_the_dag_and_back(
    theme: str, running: World, people: People, project: Project
) -> None:
    page = people.page("vera", size=WIDE, theme=theme)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{running.control}/detector")
    page.get_by_role("region", name="Verdict").get_by_role("link", name="Runbook").click()
    expect(page.get_by_role("link", name="All runbooks")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("heading", level=1, name="Detector")).to_be_visible()

    page.goto(f"{running.airflow.site.url}/fraud/runbooks/checkpoint-damaged")
    assert page.evaluate("document.documentElement.dataset.scheme") == theme
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "fraud status"
    dag = page.get_by_role("link", name="Open fraud_detector_ops in Airflow").first
    assert dag.evaluate("link => link.href") == f"{running.airflow.site.url}/dags/fraud_detector_ops"
    assert_fits_and_is_accessible(page, (WIDE, MEDIUM, NARROW), project)


def test_a_page_follows_the_theme_of_airflow_while_it_is_open(running: World, people: People) -> None:
    page = people.page("ann", theme="light")
    page.goto(f"{running.airflow.site.url}/plugin/fraud-rules")
    inner = page.frame_locator("iframe")
    expect(inner.get_by_role("heading", level=1, name="Today")).to_be_visible()
    page.evaluate("localStorage.setItem('theme', 'dark')")
    expect(inner.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


def assert_fits_and_is_accessible(page: Page, sizes: Sequence[dict[str, int]], project: Project) -> None:
    for size in sizes:
        page.set_viewport_size(size)  # type: ignore[arg-type]
        # Wait until the browser has drawn the page at this size.
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        root = "document.documentElement"
        widths = page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]")
        assert widths[0] <= widths[1], f"wider than {size['width']} px"
        assert not violations(page, project), f"at {size['width']} px"
