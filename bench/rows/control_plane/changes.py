"""Measures response times of the control plane, and the cost of many readers of its stream."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from functools import partial

from confluent_kafka import Producer

from bench.control_site import ControlSite
from bench.detector import command, next_line
from bench.figures import Figure, Rows, Scale, at_least, at_most
from bench.inputs.full_store import RULES, document
from bench.inputs.rulesets import CANARY_ID, PAIR, Document, many, rule
from bench.lab import Lab, Session
from bench.meters.watching import quantile, quantiles
from bench.stream_reading import TOKEN
from fraud_rules.runtime import clock
from tests.support.control_plane.web.streams import StreamReader
from tests.support.waiting import MOMENT_S, until

_RATE = 1_000
_CHANGES = 50
_CHANGED_ID = 1
_RULES = 1_000
_LISTED = 20
_READERS = 100
_ALERTS_PER_S = 500
_SECONDS = 30
_FLUSH_S = 30.0

_SELECTIVE: Document = rule(CANARY_ID, PAIR, "MAX", 19.85, windowSeconds=1)
"""Fires on one transaction in a hundred: amounts are distributed evenly from 5 to 20."""


def _measure_changes(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("control") as session:
        session.apply((rule(_CHANGED_ID, PAIR, "SUM", 10**12), _SELECTIVE))
        session.launch()
        with ControlSite.over(session) as site:
            until(lambda: _live(site) == 2, "both rules are live")
            changes = scale.of(_CHANGES, 5)
            with session.steady(_RATE, 3 * changes + 60), site.stream() as reader:
                until(lambda: _received_alerts(reader), "an alert arrives")
                values = _changes(site, reader, changes)
                values |= quantiles("alert", [late for _, late in _received_alerts(reader)], "p50", "p95", "max")
            return values | _lists(session, site, scale.of(_RULES, 50))


def _changes(site: ControlSite, reader: StreamReader, count: int) -> dict[str, float]:
    """Save the rule repeatedly, at times unrelated to the batches. Return the times in ms from before the request until
    the reader of the stream receives this version as live; the API must then show the same."""
    rng = random.Random(count)  # noqa: S311 - only for random times
    path = f"/rules/{_CHANGED_ID}"
    live = []
    for n in range(count):
        time.sleep(rng.random())
        seen = site.ask("GET", path)
        document = {**seen.json()["document"], "limit": 10**12 + n + 1}
        version, position = seen.json()["activation"]["logVersion"], len(reader.events)
        saved_ms = time.time() * 1_000
        site.ask("PUT", path, json={"document": document}, headers={"If-Match": seen.headers["etag"]})
        shown = until(partial(_shown, reader, position, version), "the change is live", every_s=MOMENT_S)
        live.append(shown[0] - saved_ms)
        now = site.ask("GET", path).json()
        assert (now["activation"]["status"], now["activation"]["logVersion"]) == ("LIVE", shown[1]), now["activation"]
    return quantiles("live", live, "p50", "p95", "max")


def _shown(reader: StreamReader, position: int, version: int) -> tuple[float, int] | None:
    """Return when the stream reported a newer live version than `version` of the changed rule, and that version."""
    for event in reader.events[position:]:
        if event.name == "operation":
            report = event.data
            if report["ruleId"] == _CHANGED_ID and report["logVersion"] > version:
                assert report["status"] == "LIVE", report
                return event.at_ms, report["logVersion"]
    return None


def _received_alerts(reader: StreamReader) -> list[tuple[str, float]]:
    """Return the alerts, and the times from their append until the reader had them (ms)."""
    events = list(reader.events)
    return [(alert["alertId"], each.at_ms - alert["appendTime"]) for each in events for alert in each.alerts()]


def _lists(session: Session, site: ControlSite, rules: int) -> dict[str, float]:
    """Return the seconds of a request that lists this number of live rules."""
    session.apply(many(rules - 1, 10))
    until(lambda: _live(site) == rules, "all rules are live")
    took, size = [], 0
    for _ in range(_LISTED):
        began = time.perf_counter()
        answer = site.ask("GET", f"/rules?limit={rules}")
        took.append(time.perf_counter() - began)
        size = len(answer.content)
        assert len(answer.json()["items"]) == rules
    took.sort()
    return {"listed_p50_s": quantile(took, 0.5), "listed_max_s": took[-1], "listed_bytes": size}


def _live(site: ControlSite) -> int:
    """Return the number of live rules in the API."""
    items = site.ask("GET", f"/rules?limit={_RULES}").json()["items"]
    return sum((each["activation"] or {}).get("status") == "LIVE" for each in items)


def _measure_readers(lab: Lab, scale: Scale) -> Mapping[str, float]:
    with lab.session("control-readers") as session, ControlSite.over(session) as site:
        alerts = _ALERTS_PER_S * scale.of(_SECONDS, 6)
        asked = ["--url", f"{site.api}/alerts/stream", "--readers", str(_READERS), "--alerts", str(alerts)]
        with command("bench.stream_reading", *asked, environ={TOKEN: site.token()}) as reading:
            next_line(reading)  # all readers are connected
            cpu_s = site.cpu_s()
            append_s = _append(session, alerts)
            summary: dict[str, float] = json.loads(next_line(reading))
            cpu_s = site.cpu_s() - cpu_s
        return summary | {"server_cpu": 100 * cpu_s / append_s, "appended_per_s": alerts / append_s}


def _append(session: Session, count: int) -> float:
    """Append alerts evenly. Return the seconds."""
    producer = Producer({"bootstrap.servers": session.bootstrap, "acks": 1, "linger.ms": 5, "log_level": 2})
    began = time.perf_counter()
    for n, text in enumerate(alert_documents(count)):
        time.sleep(max(0.0, began + n / _ALERTS_PER_S - time.perf_counter()))
        producer.produce(session.names.alerts, text, b"k", partition=0)
        producer.poll(0)
    left = producer.flush(_FLUSH_S)
    assert not left, f"the broker did not accept {left} alerts"
    return time.perf_counter() - began


def alert_documents(count: int) -> Iterator[bytes]:
    """Alerts in the detector's format, of fifty rules, so that no rule floods."""
    now_ms = clock.now_ms()
    for n in range(count):
        rule_id = n % RULES + 1
        violated = rule(rule_id, PAIR, "SUM", 100, name=f"Payments of one payer, {rule_id}", severity="HIGH")
        yield document(n, now_ms, violated)


_LIVE = "saving a rule until a page has it as live"
_ALERT = "an alert's append until a page has it"

ROWS = (
    Rows(
        "control_changes",
        "The control plane: changes, alerts, a long list",
        f"API server and detector, {_CHANGES} changes of a rule at {_RATE:,} tx/s; another rule fires on one "
        f"transaction in a hundred. Then one request lists {_RULES:,} rules, {_LISTED} times.",
        (
            Figure("live_p50_ms", f"{_LIVE}, p50", "ms"),
            Figure("live_p95_ms", f"{_LIVE}, p95", "ms", at_most(2_000), promise=True),
            Figure("live_max_ms", f"{_LIVE}, largest", "ms"),
            Figure("alert_p50_ms", f"{_ALERT}, p50", "ms"),
            Figure("alert_p95_ms", f"{_ALERT}, p95", "ms", at_most(1_000), promise=True),
            Figure("alert_max_ms", f"{_ALERT}, largest", "ms"),
            Figure("listed_p50_s", f"list of {_RULES:,} rules, median", "s", at_most(1)),
            Figure("listed_max_s", f"list of {_RULES:,} rules, largest of {_LISTED}", "s", at_most(1)),
        ),
        _measure_changes,
    ),
    Rows(
        "control_readers",
        f"The control plane: {_READERS} readers of the stream at {_ALERTS_PER_S} alerts/s",
        f"Without a detector, for {_SECONDS} s. One reader disconnects after a third of the alerts, and reconnects "
        "after 3 s with `Last-Event-ID`.",
        (
            Figure("server_cpu", "CPU of the API server", "% of a core", at_most(100)),
            Figure("same_position", "readers that end at the same position", "", at_least(_READERS)),
            Figure("told_all", "readers that receive all alerts", "", at_least(_READERS)),
            Figure("missed", "alerts missed by the disconnected reader", "", at_most(0)),
            Figure("twice", "alerts received twice", "", at_most(0)),
            Figure("told_p50_ms", f"{_ALERT}, p50", "ms"),
            Figure("told_p95_ms", f"{_ALERT}, p95", "ms", at_most(1_000)),
        ),
        _measure_readers,
    ),
)
