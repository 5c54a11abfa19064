"""The bar of the control plane, which has its links in groups."""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import FrameLocator, Locator, Page

__all__ = ["bar_link", "open_group"]

_GROUPS: Final = {
    "Work": ("Today", "Alerts", "Cases", "Decisions"),
    "Rules": ("Rules", "Lists", "Maps", "Approvals", "Quality"),
    "Run": ("Detector", "Data", "Notifications", "Audit", "API", "Roles & controls", "Demo"),
}


def open_group(page: Page | FrameLocator, group: str) -> Locator:
    """Open a group of the bar with the pointer, and return the links that are visible in the bar."""
    bar = page.get_by_role("navigation", name="Fraud rules")
    bar.get_by_role("button", name=re.compile(f"^{group}")).hover()
    return bar.get_by_role("link")


def bar_link(page: Page | FrameLocator, name: str) -> Locator:
    """Open the group of a page with the pointer, and return the link to the page."""
    (group,) = (group for group, names in _GROUPS.items() if name in names)
    return open_group(page, group).filter(has_text=re.compile(f"^{re.escape(name)}"))
