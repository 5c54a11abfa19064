"""Measures Airflow's API server and an approver while fifty viewers send requests as fast as they can.

The viewers and the approver use the own pages of the control plane's server, or those that Airflow's plugin forwards.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import httpx

from bench.control_site import ControlSite
from bench.detector import command, next_line
from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.loads import RATE_UNIFORM, transactions
from bench.inputs.producing import Backlog
from bench.inputs.rulesets import PAIR, many, rule
from bench.lab import Lab, Session
from bench.meters.watching import quantiles
from bench.rows.control_plane.changes import alert_documents
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime import clock
from tests.support.control_plane.web.api_server import ApiServer, DirectServer
from tests.support.waiting import until

_VIEWERS = 50
_APPROVER = "approver"
_AIRFLOW_COOKIE = "_token"  # without the import of Airflow, which sets up logging
_STREAMS = 6
_REQUESTS = 6
_SECONDS = 100
_RULES = 1_000
_ALERTS = 5_000
_PAYMENTS = 200_000
_PAUSED_ID = 5_000
_HEALTH_EVERY_S = 0.1
_PAUSE_EVERY_S = 1.5


def _measure(lab: Lab, scale: Scale, *, forwarded: bool = False) -> Mapping[str, float]:
    viewers = [f"viewer{n}" for n in range(scale.of(_VIEWERS, 5))]
    with lab.session("viewers") as session:
        alert_ids = _fill(session, scale)
        with ControlSite.over(session, (*viewers, _APPROVER), _STREAMS) as site:
            _prepare(site, viewers, scale)
            seconds = scale.of(_SECONDS, 10)
            direct = DirectServer(site.airflow, site.airflow.site.control_url)
            pages = site if forwarded else direct
            quiet = _probed(site, pages, seconds / 4)
            cookies = [
                f"{_AIRFLOW_COOKIE}={site.token(user)}" if forwarded else direct.cookie(user) for user in viewers
            ]
            with _load(pages, cookies, _addresses(alert_ids)) as answers:
                busy = _probed(site, pages, seconds)
            return {f"quiet_{name}": value for name, value in quiet.items()} | busy | _by_status(answers(), seconds)


def _fill(session: Session, scale: Scale) -> Sequence[str]:
    """Write rules, payments and alerts, so that lists and evidence have much to read. Return ids of alerts."""
    session.apply(many(scale.of(_RULES, 50), 10))
    backlog = Backlog(session.bootstrap, session.names.transactions)
    backlog.hold(transactions(replace(RATE_UNIFORM, count=scale.of(_PAYMENTS, 2_000)), clock.now_ms))
    backlog.release()
    documents = [*alert_documents(scale.of(_ALERTS, 100))]
    append_records(session.kafka, session.names.alerts, [(b"k", text) for text in documents])
    return [json.loads(text)["alertId"] for text in documents[-50:]]


def _prepare(site: ControlSite, viewers: Sequence[str], scale: Scale) -> None:
    for user in viewers:
        site.ask("PUT", f"/bindings/{user}", json={"role": "viewer"})
    site.ask("PUT", f"/bindings/{_APPROVER}", json={"role": "approver"})
    document = {**rule(_PAUSED_ID, PAIR, "SUM", 10**12)}
    document.pop("ruleState", None)
    site.ask("POST", "/rules", json={"document": document})
    for state in ("SHADOW", "ACTIVE"):
        _move(site.ask, state)
    site.health().raise_for_status()  # Airflow builds this part of its API at its first request, for several seconds
    until(lambda: len(site.ask("GET", f"/rules?limit={_RULES}").json()["items"]) >= scale.of(_RULES, 50), "the rules")
    until(lambda: len(site.ask("GET", "/alerts?limit=100").json()["items"]) >= 100, "the alerts")


def _addresses(alert_ids: Sequence[str]) -> Sequence[str]:
    """The most expensive requests of a viewer."""
    evidence = [f"/alerts/{each}/evidence" for each in alert_ids]
    others = ["/alerts?limit=500", "/rules?limit=1000", "/decisions", "/quality", "/export", "/progress?minutes=60"]
    return [*evidence[:10], *others]


@contextmanager
def _load(pages: ApiServer, cookies: Sequence[str], paths: Sequence[str]) -> Iterator[Callable[[], dict[str, int]]]:
    """Run the viewers. The value ends them, and returns the number of their answers by status."""
    ended: dict[str, int] = {}
    asked = ["--url", pages.api, "--streams", str(_STREAMS), "--requests", str(_REQUESTS), *paths]
    with command("bench.viewers", *asked) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(cookies) + "\n")
        process.stdin.flush()
        next_line(process)  # all streams are open

        def answers() -> dict[str, int]:
            return ended

        yield answers
        process.stdin.close()
        ended |= json.loads(next_line(process))


def _by_status(answers: Mapping[str, int], seconds: float) -> dict[str, float]:
    refused = answers.get("429", 0) + answers.get("503", 0)
    total = sum(answers.values())
    good = answers.get("200", 0)
    return {"answers_per_s": good / seconds, "refusals_per_s": refused / seconds, "failed": total - good - refused}


def _probed(site: ControlSite, pages: ApiServer, seconds: float) -> dict[str, float]:
    """Measure the heartbeats' address and the pause of a rule for some seconds. Return quantiles of both, in ms."""
    stopped = threading.Event()
    with ThreadPoolExecutor() as pool:
        health = pool.submit(_repeated, lambda: site.health().raise_for_status(), _HEALTH_EVERY_S, stopped)
        pauses = pool.submit(
            _repeated, lambda: _pause_and_resume(partial(pages.ask, user=_APPROVER)), _PAUSE_EVERY_S, stopped
        )
        time.sleep(seconds)
        stopped.set()
        found = {"health": health.result(), "pause": pauses.result()}
    values = {f"{name}_count": float(len(times)) for name, times in found.items()}
    for name, times in found.items():
        values |= quantiles(name, times, "p50", "p99", "max")
    return values


def _repeated(call: Callable[[], object], every_s: float, stopped: threading.Event) -> list[float]:
    times: list[float] = []
    while not stopped.is_set():
        began = time.perf_counter()
        measured = call()
        times.append(measured if isinstance(measured, float) else 1_000 * (time.perf_counter() - began))
        stopped.wait(every_s)
    return times


def _pause_and_resume(approver: Callable[..., httpx.Response]) -> float:
    """Pause the rule, and resume it. Return the ms of the pause: reading the rule, and changing its state."""
    began = time.perf_counter()
    _move(approver, "PAUSE")
    took_ms = 1_000 * (time.perf_counter() - began)
    _move(approver, "ACTIVE")
    return took_ms


def _move(ask: Callable[..., httpx.Response], state: str) -> None:
    tag = ask("GET", f"/rules/{_PAUSED_ID}").raise_for_status().headers["etag"]
    moved = ask("POST", f"/rules/{_PAUSED_ID}/state", json={"state": state}, headers={"If-Match": tag})
    moved.raise_for_status()


_HEALTH = "`/execution/health`"
_PAUSE = "an approver's pause of a rule (two requests)"

_FIGURES = (
    Figure("health_p50_ms", f"{_HEALTH}, p50", "ms"),
    Figure("health_p99_ms", f"{_HEALTH}, p99", "ms", at_most(100), promise=True),
    Figure("health_max_ms", f"{_HEALTH}, largest", "ms"),
    Figure("pause_p50_ms", f"{_PAUSE}, p50", "ms"),
    Figure("pause_p99_ms", f"{_PAUSE}, p99", "ms", at_most(1_000), promise=True),
    Figure("pause_max_ms", f"{_PAUSE}, largest", "ms"),
    Figure("health_count", f"requests for {_HEALTH}", ""),
    Figure("pause_count", "pauses", ""),
    Figure("quiet_health_p99_ms", f"{_HEALTH}, p99 without viewers", "ms"),
    Figure("quiet_pause_p99_ms", f"{_PAUSE}, p99 without viewers", "ms"),
    Figure("answers_per_s", "the viewers' requests that were answered", "/s", at_least(1)),
    Figure("refusals_per_s", "the viewers' requests that were refused (429, 503)", "/s"),
    Figure("failed", "other answers", "", at_most(0)),
)

ROWS = (
    Rows(
        "control_viewers",
        f"The control plane: {_VIEWERS} viewers at their worst",
        f"{_VIEWERS} viewers, each with {_STREAMS} event streams and {_REQUESTS} connections, send requests without a "
        f"pause and ignore `Retry-After`: lists of {_RULES:,} rules and {_ALERTS:,} alerts, evidence from "
        f"{_PAYMENTS:,} payments, reports, exports. They use the server's own pages. Meanwhile one client asks Airflow "
        f"for {_HEALTH}, and an approver pauses and resumes a rule every {_PAUSE_EVERY_S:g} s.",
        _FIGURES,
        _measure,
    ),
    Rows(
        "control_viewers_forwarded",
        f"The control plane: {_VIEWERS} viewers through Airflow",
        "The same, with the pages that Airflow's plugin forwards: all requests also pass Airflow's event loop.",
        _FIGURES,
        partial(_measure, forwarded=True),
    ),
)
