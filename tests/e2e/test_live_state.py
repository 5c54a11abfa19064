"""Pages show the present state while batches and alerts arrive every second.

The default run has only the test of many tabs, which needs the connections of a real browser. `OutageBanner.test.tsx`
and `eventStream.test.ts` show what a page says of a server that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from fraud_local.airflow import Component
from tests.e2e.navigation import bar_link
from tests.e2e.people import People
from tests.e2e.world import World
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PAYER = 5_900_001


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


@pytest.mark.long
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
        expect(verdict).to_contain_text("MOSTLY QUARANTINED")
        expect(today).to_contain_text("MOSTLY QUARANTINED")
        for page in pages.values():
            banner = page.get_by_role("region", name="Detector fault")
            expect(banner).to_contain_text("Payments do not reach the rules.")
        expect(pages["detector"].get_by_role("table", name="Quarantined records")).to_contain_text("unreadable")
        dilute(running)
        expect(verdict).to_contain_text("HEALTHY")
        expect(today).to_contain_text("HEALTHY")
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


@pytest.mark.long
def test_a_server_that_hangs_is_named_and_recovers(fired: int, running: World, people: People) -> None:
    page, detector = people.open("vera", "/today"), people.open("vera", "/detector")
    expect(page.get_by_text("Live updates")).to_be_visible()
    expect(detector.get_by_role("region", name="Verdict")).to_contain_text("HEALTHY")
    expect(page.get_by_role("status", name="Detector")).to_contain_text("HEALTHY")
    server = list(running.airflow.processes(Component.CONTROL_PLANE))
    for process in server:
        process.suspend()
    try:
        expect(page.get_by_role("region", name="No answer")).to_contain_text("The server does not answer.")
        expect(page.get_by_role("status", name="Detector")).to_contain_text("No answer")
        expect(detector.get_by_role("region", name="Verdict")).to_contain_text("No answer")
        expect(page.get_by_text("Live updates")).to_have_count(0)
        bar_link(page, "Lists").click()
        expect(page.get_by_text("Waiting for the server for")).to_be_visible()
    finally:
        for process in server:
            process.resume()
    expect(page.get_by_role("link", name="mules")).to_be_visible()
    expect(page.get_by_role("region", name="No answer")).to_have_count(0)
    expect(page.get_by_text("Live updates")).to_be_visible()


def test_many_tabs_share_one_stream_and_leave_connections_for_airflow(
    fired: int, running: World, people: People
) -> None:
    first = people.open("ann", f"/alerts?ruleId={fired}")
    context = first.context
    streams: set[Request] = set()
    context.on("request", lambda request: streams.add(request) if STREAM in request.url else None)
    context.on("requestfailed", lambda request: streams.discard(request))
    context.on("requestfinished", lambda request: streams.discard(request))
    first.reload()
    tabs = [first]
    for _ in range(CONNECTIONS - 1):
        tab = context.new_page()
        tab.goto(first.url)
        tabs.append(tab)
    for tab in tabs:
        expect(tab.get_by_text("Live updates")).to_be_visible()
    assert count_open(streams) == 1
    airflow = context.new_page()
    airflow.goto(f"{running.airflow.site.url}/")
    expect(airflow.get_by_role("link", name="Dags").first).to_be_visible()
    running.pay(PAYER + 2, 30_000)
    for tab in tabs:
        expect(alert_of(tab, PAYER + 2)).to_be_visible()
    first.close()
    running.pay(PAYER + 3, 30_000)
    for tab in tabs[1:]:
        expect(alert_of(tab, PAYER + 3)).to_be_visible()
    assert count_open(streams) == 1
    for tab in tabs[1:]:
        tab.evaluate(HIDE)
    until(lambda: hidden_without_stream(tabs[1], streams), "the stream is closed")


def hidden_without_stream(tab: Page, streams: set[Request]) -> bool:
    tab.wait_for_timeout(100)  # lets the events of the requests arrive
    return count_open(streams) == 0


def count_open(streams: set[Request]) -> int:
    """Count the requests of open tabs: the end of a closed tab's request is not reported."""
    return sum(not request.frame.page.is_closed() for request in streams)


def alert_of(page: Page, payer: int) -> Locator:
    return page.get_by_role("list", name="Alerts").get_by_role("listitem").filter(has_text=str(payer)).first


CONNECTIONS = 6
"""The connections of a browser to a server. A stream for each tab would leave none for a page of Airflow's."""
STREAM = "/alerts/stream"
HIDE = """() => {
    Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
PATHS = {"detector": "/detector", "today": "/today", "rules": "/rules", "alerts": "/alerts"}
