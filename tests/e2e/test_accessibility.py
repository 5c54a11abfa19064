"""Every page at two widths and in both themes: what axe-core finds, that nothing is cut off, and how it looks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fraud_rules.project import Project
from tests.e2e.people import NARROW, WIDE, People
from tests.e2e.world import World

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

PAGES = {
    "rules": "/rules",
    "new-rule": "/rules/new",
    "rule": "/rules/{rule}",
    "versions": "/rules/{rule}?tab=versions",
    "what-if": "/rules/{rule}?tab=whatif",
    "alerts": "/alerts",
    "approvals": "/approvals",
    "quality": "/quality",
    "detector": "/detector",
    "audit": "/audit",
    "roles-and-controls": "/admin",
}
STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# FRAUD_SCREENSHOTS names a folder (docs/images) to keep pictures in.
PICTURES = os.environ.get("FRAUD_SCREENSHOTS")


@pytest.fixture(scope="module")
def rule(running: World) -> int:
    """An installation that has been at work: a live rule with alerts, a draft, something that waits, bad records."""
    found = running.rule(
        {
            "name": "Rapid transfers to one beneficiary",
            "description": "One payer moves much to the same beneficiary, in however many payments.",
            "severity": "high",
            "owner": "payments-fraud",
            "groupingKeyNames": ["payeeId", "beneficiaryId"],
            "aggregateFieldName": "paymentAmount",
            "aggregatorFunctionType": "SUM",
            "limitOperatorType": ">",
            "limit": 20_000,
            "windowMinutes": 20,
            "filter": "paymentType = 'CRD'",
        },
        "SHADOW",
    )
    running.rule({"name": "Cash average", **COUNT})
    asked = running.rule(
        {"name": "Payment velocity", "severity": "medium", "owner": "payments-fraud", **COUNT}, "SHADOW"
    )
    running.await_live(found)
    etag = running.ask("GET", f"/rules/{asked}").headers["etag"]
    wish = {"state": "ACTIVE", "comment": "three frauds in a week"}
    assert running.ask("POST", f"/rules/{asked}/state", "ann", json=wish, headers={"If-Match": etag}).is_success
    for payer in range(9_100, 9_112):
        running.pay(payer, 15_000, 9_400.5)
    running.garbage('{"transactionId": 1, "paymentAmount": "much"')
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=lambda size: str(size["width"]))
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible(
    name: str, size: dict[str, int], theme: str, rule: int, people: People, project: Project
) -> None:
    page = people.open("admin", PAGES[name].format(rule=rule), size=size, theme=theme)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_label("Loading")).to_have_count(0)
    assert page.evaluate("document.documentElement.dataset.mantineColorScheme") == theme
    _picture(page, f"{name}-{size['width']}-{theme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], "wider than the window"
    assert not _violations(page, project)


def test_a_page_follows_the_theme_of_airflow_while_it_is_open(running: World, people: People) -> None:
    page = people.page("ann", theme="light")
    page.goto(f"{running.airflow.site.url}/plugin/fraud-rules")
    inner = page.frame_locator("iframe")
    expect(inner.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    page.evaluate("localStorage.setItem('theme', 'dark')")
    expect(inner.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


def _violations(page: Page, project: Project) -> list[str]:
    source = project.root / "plugins/fraud_ops/control_plane/ui/node_modules/axe-core/axe.min.js"
    page.evaluate(source.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate(f"axe.run({{runOnly: {{type: 'tag', values: {STANDARD}}}}})")
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def _picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"control-{name}.png")


COUNT = {
    "groupingKeyNames": ["payeeId"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">",
    "limit": 80,
    "windowSeconds": 10,
}
