"""Measures the requests of each page, and the work behind them, over a store with a million alerts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from bench.control_site import ControlSite
from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.full_store import COMMON_WORD, PAYERS, RULES, alert_id, document, fill
from bench.inputs.rulesets import many
from bench.lab import Lab, Session
from bench.meters.watching import quantiles
from bench.rows.control_plane.store_work import FIGURES, store_work
from fraud_control.store.database import Database
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime import clock
from tests.support.waiting import until

_ALERTS: Final = 1_000_000
_IN_TOPIC: Final = 50_000
_ASKED: Final = 100
_USERS: Final = 4
_RULES_IN_LOG: Final = 1_000
_PATIENCE_S: Final = 600
_LIMITLESS: Final = "1000000"
_AUDIT: Final = ("", "user=user{}", "ruleId={}", "action=rule", "since={}d&until=12h")
_SORTS: Final = ("newest", "oldest", "amount", "severity")

Ask = Callable[..., httpx.Response]


def _pages(alerts: int) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """By the name of a page, the requests of its visit number `n`."""

    def one(n: int) -> str:
        return alert_id(n * 7_919 % alerts)

    def case(n: int) -> int:
        return 1 + n * 7_919 % (alerts // 20)

    def rule(n: int) -> int:
        return 1 + n % RULES

    def payer(n: int) -> int:
        return 1_000 + n * 7_919 % PAYERS

    def days(n: int) -> str:
        return f"{1 + n % 29}d"

    return {
        "today": lambda n: ["/today"],
        "alerts": lambda n: [f"/alerts?limit={50 + n}"],
        "by_time": lambda n: [f"/alerts?severity=high&since={days(n)}&sort={_SORTS[n % 4]}"],
        "by_amount": lambda n: [f"/alerts?minAmount={n * 90}&maxAmount={n * 90 + 9}&sort={_SORTS[n % 4]}"],
        "by_verdict": lambda n: [f"/alerts?verdict={('UNREVIEWED', 'FRAUD', 'NOT_FRAUD')[n % 3]}&since={days(n)}"],
        "frequent": lambda n: [f"/alerts?text={COMMON_WORD}&since={days(n)}&sort={_SORTS[n % 4]}"],
        "frequent_rule": lambda n: [f"/alerts?text={COMMON_WORD}&ruleId={rule(n)}&until={n * 90 + 9}m"],
        "frequent_shadow": lambda n: [f"/alerts?text={COMMON_WORD}&shadow=true&sort={_SORTS[n % 4]}&limit={50 + n}"],
        "rare": lambda n: [f"/alerts?text={n * 7_919 % alerts}x&sort={_SORTS[n % 4]}", f"/alerts?text={payer(n)}"],
        "alert": lambda n: [f"/alerts?alertId={one(n)}", f"/cases?alertId={one(n)}&limit=1"],
        "matching": lambda n: [f"/alerts/matching?ruleId={rule(n)}", f"/cases/matching?ruleId={rule(n)}"],
        "cases": lambda n: [f"/cases?status=OPEN&sort={('severity', 'newest', 'oldest')[n % 3]}&limit={50 + n % 50}"],
        "cases_rule": lambda n: [f"/cases?ruleId={rule(n)}&sort={('severity', 'newest', 'oldest')[n % 3]}"],
        "case": lambda n: [f"/cases/{case(n)}", f"/alerts?caseId={case(n)}&limit=50"],
        "entity": lambda n: [f"/alerts?entity=payeeId:{payer(n)}&limit=50"],
        "rules": lambda n: [f"/rules?limit={900 + n}", "/quality"],
        "rule": lambda n: [f"/rules/{rule(n)}", f"/rules/{rule(n)}/versions", f"/alerts?ruleId={rule(n)}&limit=50"],
        "quality": lambda n: ["/quality", "/labels"],
        "approvals": lambda n: [f"/approvals?open={str(n % 2 == 0).lower()}"],
        "audit": lambda n: [f"/audit?{_AUDIT[n % 5].format(n % 20 + 1)}", "/audit/verify"],
        "lists": lambda n: ["/lists", "/lists/mules", f"/lists/mules/values?q={n}"],
        "detector": lambda n: ["/progress?minutes=60", "/alarms", "/drift", "/liveness"],
    }  # fmt: skip


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    alerts, visits = scale.of(_ALERTS, 20_000), scale.of(_ASKED, 4)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fraud-bench-")))
        session = stack.enter_context(lab.session("full-store"))
        url = f"sqlite:///{folder / 'store.db'}"
        database = Database.open(url)
        stack.callback(database.close)
        values = {"fill_s": _filled(session, database, alerts)}
        session.environ |= {
            "FRAUD_CONTROL_DATABASE": url,
            "FRAUD_CONTROL_RATES_SERVER_REQUESTS_PER_S": _LIMITLESS, "FRAUD_CONTROL_RATES_REQUESTS_PER_S": _LIMITLESS,
        }  # fmt: skip
        users = [f"approver{n}" for n in range(_USERS)]
        with ControlSite.over(session, users) as site:
            _prepare(site, users)
            pages = _pages(alerts)
            values |= _quantiles("one", _visited(site.ask, pages, range(visits)))
            values |= _cpu(site, pages, visits)
            values |= _quantiles("several", _by_several(site, users, pages, visits))
            values |= _marking(site, alerts, visits)
        return values | store_work(database, folder, alerts)


def _filled(session: Session, database: Database, alerts: int) -> float:
    """Fill the store, and append its newest alerts to the topic. Return the seconds of the filling."""
    began, now_ms = time.monotonic(), clock.now_ms()
    fill(database, alerts, now_ms)
    took_s = time.monotonic() - began
    session.apply(many(_RULES_IN_LOG, 10))
    newest = range(max(0, alerts - _IN_TOPIC), alerts)
    append_records(session.kafka, session.names.alerts, [(b"k", document(n, now_ms)) for n in newest])
    return took_s


def _prepare(site: ControlSite, users: Sequence[str]) -> None:
    for user in users:
        site.ask("PUT", f"/bindings/{user}", json={"role": "approver"})
    site.ask("POST", "/lists", json={"name": "mules", "type": "long", "values": list(map(str, range(1_000)))})
    until(lambda: site.ask("GET", "/today").json()["complete"], "the feed has the day", timeout_s=_PATIENCE_S)
    until(lambda: len(site.ask("GET", "/rules?limit=1000").json()["items"]) >= _RULES_IN_LOG - 50, "the rules")


def _visited(
    ask: Ask, pages: Mapping[str, Callable[[int], Sequence[str]]], visits: Sequence[int]
) -> dict[str, list[float]]:
    """Visit all pages in a random order again and again. Return the ms of each visit."""
    times: dict[str, list[float]] = {name: [] for name in pages}
    order = [(name, n) for n in visits for name in pages]
    random.Random(len(order)).shuffle(order)  # noqa: S311 - only for a random order
    for name, n in order:
        began = time.perf_counter()
        for path in pages[name](n):
            ask("GET", path)
        times[name].append(1_000 * (time.perf_counter() - began))
    return times


def _cpu(site: ControlSite, pages: Mapping[str, Callable[[int], Sequence[str]]], visits: int) -> dict[str, float]:
    """The CPU time of the server for a visit of each page, in ms: the mean of visits in a row."""
    used = {}
    for name, paths in pages.items():
        before_s = site.cpu_s()
        for n in range(max(2, visits // 5)):
            for path in paths(n):
                site.ask("GET", path)
        used[f"cpu_{name}_ms"] = 1_000 * (site.cpu_s() - before_s) / max(2, visits // 5)
    return used


def _by_several(
    site: ControlSite, users: Sequence[str], pages: Mapping[str, Callable[[int], Sequence[str]]], visits: int
) -> dict[str, list[float]]:
    asks = [partial(site.ask, user=user) for user in users]
    with ThreadPoolExecutor(len(users)) as pool:
        found = list(pool.map(lambda n: _visited(asks[n], pages, range(n, visits, len(users))), range(len(users))))
    return {name: [ms for times in found for ms in times[name]] for name in pages}


def _marking(site: ControlSite, alerts: int, visits: int) -> dict[str, float]:
    """Mark alerts alone, then the alerts of rules at once."""
    marks = []
    for n in range(visits):
        path = f"/alerts/{alert_id(alerts - 1 - n)}/mark"
        marks.append(_ms(partial(site.ask, "PUT", path, json={"verdict": "FRAUD"})))
    bulk = [
        _ms(partial(site.ask, "POST", f"/alerts/marks/matching?ruleId={n + 1}", json={"verdict": "NOT_FRAUD"}))
        for n in range(max(2, visits // 10))
    ]
    return quantiles("mark", marks, "p50", "p99") | quantiles("bulk", bulk, "p50", "max")


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - began)


def _quantiles(kind: str, times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    of_pages = [quantiles(f"{kind}_{name}", found, "p50", "p99") for name, found in times.items()]
    return {key: value for each in of_pages for key, value in each.items()}


_TITLES: Final = {
    "today": "Today",
    "alerts": "Alerts, newest",
    "by_time": "Alerts by severity and time",
    "by_amount": "Alerts by amount",
    "by_verdict": "Alerts by verdict and time",
    "frequent": "Alerts with a word that all have",
    "frequent_rule": "Alerts of a rule with that word",
    "frequent_shadow": "Shadow alerts with that word: none",
    "rare": "Alerts with a rare word",
    "alert": "one alert",
    "matching": "the counts before a bulk change",
    "cases": "Cases",
    "cases_rule": "Cases of a rule",
    "case": "one case with its alerts",
    "entity": "the alerts of an entity",
    "rules": "Rules",
    "rule": "one rule with its versions and alerts",
    "quality": "Quality",
    "approvals": "Approvals",
    "audit": "Audit",
    "lists": "Lists and one list",
    "detector": "Detector",
}


def _figures() -> Iterator[Figure]:
    for name, title in _TITLES.items():
        yield Figure(f"one_{name}_p50_ms", f"{title}: p50", "ms")
        yield Figure(f"one_{name}_p99_ms", f"{title}: p99", "ms", at_most(1_000))
        yield Figure(f"cpu_{name}_ms", f"{title}: CPU of the server, mean", "ms")
        yield Figure(f"several_{name}_p50_ms", f"{title}, {_USERS} users: p50", "ms")
        yield Figure(f"several_{name}_p99_ms", f"{title}, {_USERS} users: p99", "ms")
    yield Figure("mark_p50_ms", "a mark: p50", "ms")
    yield Figure("mark_p99_ms", "a mark: p99", "ms", at_most(1_000))
    yield Figure("bulk_p50_ms", "a bulk mark of at most 10,000 alerts: p50", "ms")
    yield Figure("bulk_max_ms", "a bulk mark of at most 10,000 alerts: largest", "ms")
    yield Figure("fill_s", "filling the store", "s")


ROWS = (
    Rows(
        "full_store",
        "The control plane: a million alerts",
        f"A SQLite store with {_ALERTS:,} alerts of 29 days, as many labels and rows of the audit log, "
        f"{_ALERTS // 20:,} cases, {_ALERTS // 5:,} marks and {_RULES_IN_LOG:,} rules; the topic has the newest "
        f"{_IN_TOPIC:,} alerts. A figure is the time of a page's requests over {_ASKED} visits of one user, or of "
        f"{_USERS} at once.",
        (*_figures(), *FIGURES),
        _measure,
    ),
)
