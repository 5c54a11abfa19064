"""The pages of the control plane, and the accessibility violations that axe-core finds on them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fraud_rules.configuration.project import Project

# By name: the path, and an element that appears when the page has loaded its data.
PAGES = {
    "today": ("/today", "role=table[name='Rules with the most alerts']"),
    "rules": ("/rules", "role=link[name=/Rapid transfers/]"),
    "new-rule": ("/rules/new", "role=textbox[name='Rule text']"),
    "rule": ("/rules/{rule}", "role=textbox[name='Rule text']"),
    "requested-rule": ("/rules", "role=link[name=/Payment velocity/]"),
    "versions": ("/rules/{rule}?tab=versions", "role=table[name='Revisions']"),
    "matches": ("/rules/{rule}?tab=health", "text='Matches of the filter'"),
    "what-if": ("/rules/{rule}?tab=whatif", "role=button[name='Run what-if']"),
    "lists": ("/lists", "role=link[name='mules']"),
    "list": ("/lists/mules", "role=table[name='Values']"),
    "list-history": ("/lists/mules?tab=history", "role=table[name='Changes']"),
    "maps": ("/maps", "role=link[name='limits']"),
    "map": ("/maps/limits", "role=table[name='Entries']"),
    "map-history": ("/maps/limits?tab=history", "role=table[name='Changes']"),
    "alerts": ("/alerts", "role=list[name='Alerts'] >> role=button[name=/Rapid transfers/] >> nth=0"),
    "opened-alert": ("/alerts", "role=list[name='Alerts'] >> role=button[name=/Rapid transfers/] >> nth=0"),
    "alert-search": (
        "/alerts?severity=high&since=1700000000000&until=4000000000000&sort=amount",
        "role=list[name='Alerts'] >> role=button[name=/Rapid transfers/] >> nth=0",
    ),
    "cases": ("/cases", "role=table[name='Cases'] >> role=link[name=/9106/]"),
    "case": ("/cases/1", "role=list[name='Alerts'] >> role=listitem >> nth=0"),
    "entity": ("/entity?field=payeeId&value=3&days=7", "role=table[name='Payments'] >> role=row >> nth=1"),
    "templates": ("/rules/templates", "role=link[name=/Use template/] >> nth=0"),
    "decisions": ("/decisions", "role=table[name='Decisions'] >> role=row >> nth=1"),
    "approvals": ("/approvals", "role=article >> nth=0"),
    "quality": ("/quality", "role=table[name='Quality of rules']"),
    "notifications": ("/notifications", "role=heading[name='Deliveries']"),
    "detector": ("/detector", "role=table[name='Quarantined records']"),
    "data": ("/data", "role=table[name='Fields']"),
    "api-docs": ("/api-docs", "role=region[name='rules']"),
    "audit": ("/audit", "role=table[name='Audit log']"),
    "decided-approvals": ("/approvals?decided=true", "role=article >> nth=1"),
    "linked-alert": ("/alerts?alert=00000000-0000-0000-0000-000000000000", "role=region[name='Linked alert']"),
    "unknown-page": ("/nowhere", "role=link[name='Open Today']"),
    "demo": ("/demo", "role=button[name='Stop traffic']"),
    "roles-and-controls": ("/admin", "role=table[name='Roles']"),
}
# The two pages that users edit and read most, and pages with many elements that no other test of the default run opens.
LARGE_PAGES = ("rule", "opened-alert", "list", "decisions", "quality", "notifications", "data", "api-docs")
# By name: a page of `PAGES`, and the button that opens a dialog there.
DIALOGS = {
    "search": ("today", "Search"),
    "import-rules": ("rules", "Import"),
    "change-state": ("rule", "Pause"),
    "new-list": ("lists", "New list"),
    "import-lists": ("lists", "Import"),
    "change-list": ("list", "Change values"),
    "new-map": ("maps", "New map"),
    "import-maps": ("maps", "Import"),
    "change-map": ("map", "Change entries"),
    "snooze": ("opened-alert", "Snooze …"),
    "close-case": ("case", "Close case …"),
    "shortcuts": ("case", "Shortcuts"),
    "saved-searches": ("alerts", "Saved searches"),
    "add-to-list": ("entity", "Add to list …"),
    "new-subscription": ("notifications", "New subscription"),
    "control": ("roles-and-controls", "Clear all state …"),
}
# With this result type, axe describes only the elements that violate a rule.
AXE_OPTIONS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}


def visit(page: Page, control: str, name: str, rule: int) -> None:
    """Open a page and wait until it has loaded its data."""
    path, shown = PAGES[name]
    page.goto(control + path.format(rule=rule))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(shown)).to_be_visible()
    if name == "opened-alert":
        page.locator(shown).click()
        expect(page.get_by_role("button", name="Fraud", exact=True)).to_be_visible()
    if name == "requested-rule":
        page.locator(shown).click()
        expect(page.get_by_text("Awaiting approval:")).to_be_visible()
    expect(page.get_by_label("Loading")).to_have_count(0)
    # The request is shown as an alert. Any other alert is an error of the page.
    expect(page.get_by_role("alert")).to_have_count(1 if name == "requested-rule" else 0)


def violations(page: Page, project: Project) -> list[str]:
    """Return the violations of WCAG 2.2 AA on the current page."""
    source = project.root / "plugins/fraud_control/ui/node_modules/axe-core/axe.min.js"
    if not source.exists():
        pytest.skip("axe-core is not installed: bin/ui check")
    page.evaluate(source.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("options => axe.run(options)", AXE_OPTIONS)
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
