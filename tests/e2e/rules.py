"""A rule, and the dialog that confirms a change of it."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def confirm(page: Page, name: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=name).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


MINIMAL = {
    "groupingKeyNames": ["payeeId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 900_000,
    "windowMinutes": 20,
}
