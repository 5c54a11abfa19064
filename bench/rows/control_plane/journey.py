"""Measures the way from an open alert to a saved rule like the alert's, with a what-if over a week, in Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from bench.figures import Figure, at_most
from bench.inputs.archived import MadeArchive
from bench.inputs.rulesets import rule

_DAYS = 7
_ROWS_A_DAY = 100_000
_LIMIT = 1_500
_WAIT_MS = 300_000
_COUNT_PRESSES = (
    "window.presses = 0; window.addEventListener('pointerdown', () => { window.presses += 1 }, true)"
)  # fmt: skip

_IS_SAVED = "() => /[/]rules[/][0-9]+$/.test(location.pathname)"

FIGURES = (
    Figure("journey_clicks", "from an open alert to a saved rule like this with what-if, clicks", "", at_most(6)),
    Figure("journey_s", "the same, machine time", "s", at_most(30)),
)
NOTE = (
    f"The way from an open alert to a saved rule includes a what-if over {_DAYS} days with {_ROWS_A_DAY:,} payments "
    "each. The texts are typed in no time."
)


@contextmanager
def archived_week(share: float) -> Iterator[Path]:
    """Write the archive for the what-if into a temporary folder."""
    draft = rule(1, ("payeeId", "beneficiaryId"), "SUM", _LIMIT)
    with TemporaryDirectory(prefix="fraud-bench-") as folder:
        MadeArchive.make(Path(folder), [draft], max(1_000, int(share * _ROWS_A_DAY)), days=_DAYS)
        yield Path(folder)


def journey(page: Page, alerts: str) -> Mapping[str, float]:
    """Make a rule from the newest alert of the page at `alerts`. Count clicks and time from the open alert on."""
    page.goto(alerts)
    page.locator("role=list[name='Alerts'] >> role=listitem >> nth=0 >> role=button").click()
    start = page.get_by_role("link", name="New rule from this alert")
    start.wait_for()
    page.evaluate(_COUNT_PRESSES)
    began = time.perf_counter()
    start.click()
    form = page.get_by_role("region", name="Form")
    form.get_by_label("Name").fill("Like the alert")
    form.get_by_label("Limit", exact=True).fill(str(_LIMIT))
    page.get_by_role("tab", name="What-if").click()
    page.get_by_role("button", name="Run what-if").click()
    page.get_by_text("Total alerts").wait_for(timeout=_WAIT_MS)
    page.get_by_role("tab", name="Rule (unsaved)").click()
    page.get_by_role("button", name="Save as draft").click()
    page.wait_for_function(_IS_SAVED)
    seconds = time.perf_counter() - began
    return {"journey_clicks": page.evaluate("window.presses"), "journey_s": seconds}
