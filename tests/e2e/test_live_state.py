"""Pages show the present state while batches and alerts arrive every second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.people import People
from tests.e2e.world import World
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PAYER = 5_900_001
SOON_MS = 45_000
"""Several intervals of the pages' reads, on a busy machine."""


@contextmanager
def traffic(running: World) -> Iterator[None]:
    """Send a payment that raises an alert twice a second."""
    ended = Event()

    def pay() -> None:
        while not ended.wait(0.5):
            running.pay(PAYER, 30_000, beneficiary=7)

    paying = Thread(target=pay)
    paying.start()
    try:
        yield
    finally:
        ended.set()
        paying.join()


def recent(running: World) -> tuple[int, int]:
    """Count the good and the unreadable records of the last minutes."""
    found = running.ask("GET", "/progress").json()["status"]["recent"]
    return found["rows"], found["quarantined"]


def test_a_fast_stream_does_not_hide_that_the_detector_is_blind(fired: int, running: World, people: People) -> None:
    pages = {name: people.open("vera", path) for name, path in PATHS.items()}
    verdict = pages["detector"].get_by_role("region", name="Verdict")
    today = pages["today"].get_by_role("status", name="Detector")
    with traffic(running):
        expect(verdict).to_contain_text("HEALTHY")
        expect(today).to_contain_text("HEALTHY")
        rows, unreadable = recent(running)
        for number in range(max(40, rows)):
            running.garbage(f'{{"transactionId": {number}, "paymentAmount": "unreadable"')
        until(lambda: recent(running)[1] > unreadable, "the detector has rejected the records")
        expect(verdict).to_contain_text("BLIND", timeout=SOON_MS)
        expect(today).to_contain_text("BLIND", timeout=SOON_MS)
        for page in pages.values():
            banner = page.get_by_role("region", name="Detector fault")
            expect(banner).to_contain_text("Payments do not reach the rules.", timeout=SOON_MS)
        expect(pages["detector"].get_by_role("table", name="Quarantined records")).to_contain_text("unreadable")
        dilute(running)
        expect(verdict).to_contain_text("HEALTHY", timeout=SOON_MS)
        expect(today).to_contain_text("HEALTHY", timeout=SOON_MS)
        ages(pages["detector"])


def dilute(running: World) -> None:
    """Send so many good records that the unreadable ones are a small part."""
    running.pay(PAYER + 1, *[1.0] * 12 * recent(running)[1])


def ages(page: Page) -> None:
    """Wait until the age of the last batch has two values: it counts without a reload."""
    seen: set[str] = set()
    age = page.get_by_role("region", name="Metrics").locator("dt", has_text="Last batch").locator("xpath=..")

    def changed() -> bool:
        seen.add(age.inner_text())
        return len(seen) > 1

    until(changed, "the age of the last batch changes")


PATHS = {"detector": "/detector", "today": "/today", "rules": "/rules", "alerts": "/alerts"}
