"""Every page and dialog in both themes and at several widths: no axe-core violation, nothing wider than the window."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from fraud_rules.configuration.project import Project
from tests.e2e.accessibility import DIALOGS, PAGES, violations, visit
from tests.e2e.people import NARROW, WIDE, WIDEST, People
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
    for size in (WIDE, WIDEST, NARROW):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        # Wait until the browser has drawn the page at this size.
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        width = size["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"wider than {width} px"
        assert not violations(page, project), f"at {width} px"


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
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert not violations(page, project), f"at {size['width']} px"
    page.keyboard.press("Tab")
    expect(dialog.locator(":focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


def test_a_page_follows_the_theme_of_airflow_while_it_is_open(running: World, people: People) -> None:
    page = people.page("ann", theme="light")
    page.goto(f"{running.airflow.site.url}/plugin/fraud-rules")
    inner = page.frame_locator("iframe")
    expect(inner.get_by_role("heading", level=1, name="Today")).to_be_visible()
    page.evaluate("localStorage.setItem('theme', 'dark')")
    expect(inner.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
