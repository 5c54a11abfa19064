"""Measures the first useful paint of the control plane's pages in Chromium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from playwright.sync_api import Page, sync_playwright

from bench.control_site import ControlSite
from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.loads import RATE_UNIFORM, Load, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import many
from bench.lab import Lab, Session
from bench.meters.watching import quantile
from bench.rows.control_plane.changes import alert_documents
from bench.rows.control_plane.journey import FIGURES, NOTE, archived_week, journey
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime import clock
from tests.support.ports import free_ports
from tests.support.waiting import until

_RULES = 1_000
_ALERTS = 100_000
_PAYMENTS = 20_000
_VISITS = 7
_OF_ONE_PAYER = 10_000
_PAYER = 900_000
_MONTH_MS = 30 * 86_400_000
_PATIENCE_S = 600
_WAIT_MS = 60_000
_COOKIE = "_token"

# By name: the path, and the element that makes the page useful.
_ROW = "role=row >> nth=1"
_PAGES = {
    "today": ("/today", f"role=table[name='Rules with the most alerts'] >> {_ROW}"),
    "rules": ("/rules", f"role=table >> {_ROW}"),
    "rule": ("/rules/2", "role=textbox[name='Rule text']"),
    "versions": ("/rules/2?tab=versions", f"role=table[name='Revisions'] >> {_ROW}"),
    "what_if": ("/rules/2?tab=whatif", "role=button[name='Run what-if']"),
    "new_rule": ("/rules/new", "role=textbox[name='Rule text']"),
    "templates": ("/rules/templates", "role=link[name=/Use template/] >> nth=0"),
    "alerts": ("/alerts", "role=list[name='Alerts'] >> role=button >> nth=0"),
    "search": ("/alerts?severity=high&since=1700000000000&until=4000000000000&sort=amount",
               "role=list[name='Alerts'] >> role=button >> nth=0"),
    "cases": ("/cases", f"role=table[name='Cases'] >> {_ROW}"),
    "case": ("/cases/1", "role=list[name='Alerts'] >> role=button >> nth=0"),
    "entity": ("/entity?field=payeeId&value=1000", f"role=table[name='Payments'] >> {_ROW}"),
    "entity_of_10000": (f"/entity?field=payeeId&value={_PAYER}", f"text=/^{_OF_ONE_PAYER:,} payments since/"),
    "lists": ("/lists", "role=link[name='mules']"),
    "list": ("/lists/mules", f"role=table[name='Values'] >> {_ROW}"),
    "approvals": ("/approvals", "text='No requests awaiting approval'"),
    "decisions": ("/decisions", "text='No decisions. New decisions appear here.'"),
    "quality": ("/quality", f"role=table[name='Quality of rules'] >> {_ROW}"),
    "notifications": ("/notifications", "role=heading[name='Deliveries']"),
    "detector": ("/detector", "role=region[name='Verdict']"),
    "api": ("/api-docs", "role=region[name='rules']"),
    "audit": ("/audit", f"role=table[name='Audit log'] >> {_ROW}"),
    "admin": ("/admin", f"role=table[name='Roles'] >> {_ROW}"),
}  # fmt: skip


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    alerts = scale.of(_ALERTS, 500)
    with lab.session("pages") as session, archived_week(scale.share) as archive:
        _fill(session, scale.of(_RULES, 50), alerts)
        with ControlSite.running(session, *free_ports(1), archive=archive) as site:
            _make_list(site)
            until(lambda: _counted(site) >= alerts, "the alerts are counted", timeout_s=_PATIENCE_S, every_s=1)
            until(lambda: _indexed(site, alerts), "the index has the alerts", timeout_s=_PATIENCE_S, every_s=1)
            with _browser(site) as page:
                painted = {f"{name}_ms": _paint_ms(page, site, name, scale.of(_VISITS, 2)) for name in _PAGES}
                return {**painted, **journey(page, _address(site, "/alerts"))}


def _fill(session: Session, rules: int, alerts: int) -> None:
    session.apply(many(rules, 10))
    backlog = Backlog(session.bootstrap, session.names.transactions)
    recent = transactions(replace(RATE_UNIFORM, count=_PAYMENTS), clock.now_ms)
    backlog.hold(chain(transactions(_payments_of_one_payer()), recent))
    backlog.release()
    append_records(session.kafka, session.names.alerts, [(b"k", text) for text in alert_documents(alerts)])


def _payments_of_one_payer() -> Load:
    """The payments of one payer, spread over the last 30 days."""
    spacing_ms = _MONTH_MS // (_OF_ONE_PAYER + 1)
    start_ms = clock.now_ms() - _OF_ONE_PAYER * spacing_ms
    return Load(
        "one_payer", _OF_ONE_PAYER, seed=44, keys=5, start_ms=start_ms, spacing_ms=spacing_ms, marker_every=0,
        payee_base=_PAYER, id_base=9_000_000_000,
    )  # fmt: skip


def _counted(site: ControlSite) -> int:
    """The alerts of today that the page shows."""
    return int(site.ask("GET", "/today").json()["alerts"])


def _indexed(site: ControlSite, alerts: int) -> bool:
    """Whether the index has the last alert; its payment has the number before `alerts`."""
    return bool(site.ask("GET", f"/alerts?text={alerts - 1}&since=24h").json()["items"])


@contextmanager
def _browser(site: ControlSite) -> Iterator[Page]:
    """Open a window with the session of the site's user. Raises ConfigError without Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise ConfigError("Chromium is not installed: as root, bin/bootstrap --browser")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"]
        )
        context = launched.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": _COOKIE, "value": site.token, "url": site.api}])
        yield context.new_page()
        launched.close()


def _make_list(site: ControlSite) -> None:
    site.ask("POST", "/lists", json={"name": "mules", "type": "long", "values": list(map(str, range(100)))})


def _address(site: ControlSite, path: str) -> str:
    return site.api.removesuffix("/api") + path


def _paint_ms(page: Page, site: ControlSite, name: str, visits: int) -> float:
    """The median of some visits after a first one, from the request to the visible element."""
    path, useful = _PAGES[name]
    times = []
    for _ in range(visits + 1):
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(_address(site, path), wait_until="commit")
        page.locator(useful).first.wait_for(timeout=_WAIT_MS)
        times.append(1_000 * (time.perf_counter() - began))
    return quantile(sorted(times[1:]), 0.5)


ROWS = (
    Rows(
        "pages",
        "The pages of the control plane",
        f"Chromium opens each page of an API server with {_RULES:,} rules and {_ALERTS:,} alerts of today, without a "
        f"detector on the same machine. A figure is the median of {_VISITS} visits after a first one, from the request "
        f"of the page until its first rows, or for a page without rows its content, are visible. `entity of 10000` "
        f"is a payer with {_OF_ONE_PAYER:,} payments in 30 days. {NOTE}",
        (*(Figure(f"{name}_ms", f"`{path.split('?')[0]}` ({name.replace('_', ' ')})", "ms",
                  at_most(2_000 if name == "entity_of_10000" else 1_000))
           for name, (path, _) in _PAGES.items()), *FIGURES),
        _measure,
    ),
)  # fmt: skip
